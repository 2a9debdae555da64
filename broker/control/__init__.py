"""The control socket: what `warrenctl` asks of a running node, which needs no password of who may open the socket."""
