#!/bin/sh
# Begins what the container runs. `rabbitmq-server`, or options alone, are the broker.
set -eu

case ${1:--} in
    rabbitmq-server) shift; set -- warren serve "$@" ;;
    -*) set -- warren serve "$@" ;;
esac

# Started as root, the broker leaves root behind; other commands stay what they were asked to be.
if [ "$(id -u)" = 0 ] && [ "$1" = warren ]; then
    find /var/lib/rabbitmq ! -user warren -exec chown -h warren:warren {} +
    exec setpriv --reuid=warren --regid=warren --init-groups "$0" "$@"
fi

# RabbitMQ's image refuses these too: who sets them wants something that would be ignored in silence.
refused=$(env | sed -n -E 's/^(RABBITMQ_(MANAGEMENT_)?SSL_[A-Z_]+|RABBITMQ_VM_MEMORY_HIGH_WATERMARK)=.+/\1/p' | sort | tr '\n' ' ')
if [ -n "$refused" ]; then
    echo "these variables are not followed, use a configuration file (/etc/rabbitmq/conf.d/*.conf): $refused" >&2
    exit 1
fi

exec "$@"
