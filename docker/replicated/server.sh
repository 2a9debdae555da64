#!/bin/sh
# One of two PostgreSQL servers. It follows its PEER if that is a primary; otherwise it is what it was before, and at the
# first start what FIRST says. A former primary that returns alone waits for its peer: if that was promoted, there would
# be two.
set -eu

peer="host=$PEER user=postgres dbname=postgres connect_timeout=2"

# Prints t if the peer follows another server, f if it is a primary, nothing if it does not answer.
peer_follows() { psql -XAtqc "SELECT pg_is_in_recovery()" "$peer" 2>/dev/null || true; }

follow() {
    echo "$HOSTNAME follows $PEER"
    find "$PGDATA" -mindepth 1 -delete 2>/dev/null || true
    pg_basebackup -d "$peer application_name=$HOSTNAME" -D "$PGDATA" -X stream -c fast -R
    # The name of this server in primary_conninfo; and no wait for a standby of its own when it is promoted.
    echo "primary_conninfo = '$peer password=$PGPASSWORD application_name=$HOSTNAME'" >>"$PGDATA/postgresql.auto.conf"
    echo "synchronous_standby_names = ''" >>"$PGDATA/postgresql.auto.conf"
}

create() {
    echo "$HOSTNAME is the first primary"
    echo "$PGPASSWORD" >/tmp/password
    initdb -D "$PGDATA" -U postgres -E UTF8 --no-locale --pwfile=/tmp/password --auth=scram-sha-256 >/dev/null
    rm /tmp/password
    printf 'host all all all scram-sha-256\nhost replication all all scram-sha-256\n' >>"$PGDATA/pg_hba.conf"
    pg_ctl -D "$PGDATA" -o "-c listen_addresses=" -w start >/dev/null
    psql -XqU postgres -c "CREATE ROLE warren LOGIN PASSWORD 'warren'" -c "CREATE DATABASE warren OWNER warren"
    pg_ctl -D "$PGDATA" -w stop >/dev/null
}

# Makes the peer wait for this server with each commit, as soon as this one has all that the peer has.
become_synchronous() {
    until [ "$(psql -XAtqc "SELECT state FROM pg_stat_replication WHERE application_name = '$HOSTNAME'" "$peer" \
        2>/dev/null)" = streaming ]; do sleep 0.5; done
    psql -Xqc "ALTER SYSTEM SET synchronous_standby_names = '*'" -c "SELECT pg_reload_conf()" "$peer" >/dev/null
    echo "$PEER waits for $HOSTNAME with each commit"
}

if [ ! -e "$PGDATA/PG_VERSION" ] && [ "$FIRST" = primary ] && [ "$(peer_follows)" != f ]; then
    create
else
    until [ -n "$(peer_follows)" ]; do
        # a standby may start alone: it becomes a primary only by a promotion
        [ ! -e "$PGDATA/standby.signal" ] || break
        echo "$HOSTNAME waits for $PEER"
        sleep 1
    done
    if [ "$(peer_follows)" = f ]; then follow; fi
fi
[ ! -e "$PGDATA/standby.signal" ] || become_synchronous &
exec postgres -D "$PGDATA" -c "listen_addresses=*" -c log_min_messages=fatal
