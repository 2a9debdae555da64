import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.OutputCommitter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;

/** A committer whose tasks write to the final place, in place of those of the connector of a store, which do not copy either. */
public class DirectCommitter extends OutputCommitter {
    @Override
    public void setupJob(JobContext context) {
    }

    @Override
    public void setupTask(TaskAttemptContext context) {
    }

    @Override
    public boolean needsTaskCommit(TaskAttemptContext context) {
        return false;
    }

    @Override
    public void commitTask(TaskAttemptContext context) {
    }

    @Override
    public void abortTask(TaskAttemptContext context) {
    }
}
