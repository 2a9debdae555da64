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
# The image sets RABBITMQ_MNESIA_DIR, which has precedence: the data would not be where they are expected.
if [ -n "${RABBITMQ_MNESIA_BASE:-}" ]; then
    echo "RABBITMQ_MNESIA_BASE is not followed in a container: name the data folder in RABBITMQ_MNESIA_DIR" >&2
    exit 1
fi
# A volume for the data of RabbitMQ alone would leave those of this broker on a volume that the container takes with it.
if grep -q ' /var/lib/rabbitmq/mnesia ' /proc/self/mounts; then
    echo "the volume at /var/lib/rabbitmq/mnesia is not used: mount one at /var/lib/rabbitmq" >&2
fi

exec "$@"
