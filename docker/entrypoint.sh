#!/bin/sh
# The entry point of the container. `rabbitmq-server`, or options without a command, start the broker.
set -eu

case ${1:--} in
    rabbitmq-server) shift; set -- warren serve "$@" ;;
    -*) set -- warren serve "$@" ;;
esac

# If the container runs as root, the broker changes to its own user; other commands stay root.
if [ "$(id -u)" = 0 ] && [ "$1" = warren ]; then
    find /var/lib/rabbitmq ! -user warren -exec chown -h warren:warren {} +
    exec setpriv --reuid=warren --regid=warren --init-groups "$0" "$@"
fi

# RabbitMQ's image refuses these too, as they would otherwise be ignored silently.
refused=$(env | sed -n -E 's/^(RABBITMQ_(MANAGEMENT_)?SSL_[A-Z_]+|RABBITMQ_VM_MEMORY_HIGH_WATERMARK)=.+/\1/p' | sort | tr '\n' ' ')
if [ -n "$refused" ]; then
    echo "these variables are not followed, use a configuration file (/etc/rabbitmq/conf.d/*.conf): $refused" >&2
    exit 1
fi

exec "$@"
