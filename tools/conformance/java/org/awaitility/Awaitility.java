package org.awaitility;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import org.hamcrest.Matcher;
import org.hamcrest.MatcherAssert;

/** The one method of Awaitility that the tests of the Java client use, as Debian does not have that library. */
public class Awaitility {
    private final long nanoseconds;

    private Awaitility(long nanoseconds) {
        this.nanoseconds = nanoseconds;
    }

    public static Awaitility waitAtMost(Duration duration) {
        return new Awaitility(duration.nanoseconds);
    }

    public <T> void until(Supplier<T> value, Matcher<? super T> matcher) {
        long begin = System.nanoTime();
        while (!matcher.matches(value.get()) && System.nanoTime() - begin < nanoseconds) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(100));
        }
        MatcherAssert.assertThat(value.get(), matcher);
    }
}
