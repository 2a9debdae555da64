"""The journal and the metadata in a PostgreSQL database, which replicates them, with one owner at a time.

    address       the URL of a database, with its password and the settings of connections
    session       one connection: transactions, each in one round trip
    schema        the tables of a store, created by `warren store init` and verified at each start
    operations    the changes of a transaction
    database      the port to the server, which tests simulate
    transactions  the transactions of the owner, committed in order
    disk          the log, as tables
    metadata      the definitions of the broker, as rows
    ownership     the epoch of the owner: how a store is taken over, and how a former owner is fenced
    durability     what a confirm is worth with the server's settings

All but `address`, `session` and `schema` run without psycopg.
"""
