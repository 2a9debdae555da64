package org.awaitility;

import java.util.concurrent.TimeUnit;

public class Duration {
    final long nanoseconds;

    public Duration(long value, TimeUnit unit) {
        nanoseconds = unit.toNanos(value);
    }
}
