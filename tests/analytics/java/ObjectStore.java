import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * A file system objects:// with the rules of an object store, on a folder of this machine: an object appears when it is
 * closed, nothing is renamed or appended to, and there are no empty folders. It logs each change that it makes or refuses.
 */
public class ObjectStore extends RawLocalFileSystem {
    public static final List<String> LOG = Collections.synchronizedList(new ArrayList<>());
    /** The end of a path at which the next object is not written, as if the job died there; or null. */
    public static volatile String failAt = null;

    @Override
    public URI getUri() {
        return URI.create("objects:///");
    }

    @Override
    public String getScheme() {
        return "objects";
    }

    @Override
    public void initialize(URI name, Configuration conf) throws IOException {
        super.initialize(name, conf);
        setWriteChecksum(false);
    }

    @Override
    public FSDataOutputStream create(Path path, FsPermission permission, boolean overwrite, int size, short copies,
            long block, Progressable progress) throws IOException {
        return object(path, overwrite);
    }

    @Override
    public FSDataOutputStream create(Path path, boolean overwrite, int size, short copies, long block,
            Progressable progress) throws IOException {
        return object(path, overwrite);
    }

    @Override
    public FSDataOutputStream createNonRecursive(Path path, FsPermission permission, boolean overwrite, int size,
            short copies, long block, Progressable progress) throws IOException {
        return object(path, overwrite);
    }

    private FSDataOutputStream object(Path path, boolean overwrite) throws IOException {
        File file = pathToFile(path);
        if (!overwrite && file.exists()) {
            throw new IOException(path + " exists");
        }
        return new FSDataOutputStream(new ByteArrayOutputStream() {
            private boolean closed;

            @Override
            public void close() throws IOException {
                if (closed) {
                    return;
                }
                closed = true;
                if (failAt != null && file.getPath().endsWith(failAt)) {
                    throw new IOException("the job dies at " + file);
                }
                file.getParentFile().mkdirs();
                Files.write(file.toPath(), toByteArray());
                LOG.add("put " + file);
            }
        }, null);
    }

    @Override
    public boolean mkdirs(Path path) {
        return true;
    }

    @Override
    public boolean mkdirs(Path path, FsPermission permission) {
        return true;
    }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        File file = pathToFile(path);
        if (!file.exists()) {
            throw new FileNotFoundException(path.toString());
        }
        long bytes = file.isDirectory() ? 0 : file.length();
        return new FileStatus(bytes, file.isDirectory(), 1, 1 << 25, file.lastModified(), makeQualified(path));
    }

    @Override
    public FileStatus getFileLinkStatus(Path path) throws IOException {
        return getFileStatus(path);
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        FileStatus own = getFileStatus(path);
        if (!own.isDirectory()) {
            return new FileStatus[] {own};
        }
        List<FileStatus> found = new ArrayList<>();
        for (String name : pathToFile(path).list()) {
            found.add(getFileStatus(new Path(path, name)));
        }
        return found.toArray(new FileStatus[0]);
    }

    @Override
    public boolean rename(Path from, Path to) throws IOException {
        LOG.add("rename " + from);
        throw new IOException("rename " + from);
    }

    @Override
    public FSDataOutputStream append(Path path, int size, Progressable progress) throws IOException {
        LOG.add("append " + path);
        throw new IOException("append " + path);
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        LOG.add("delete " + path.toUri().getPath());
        return super.delete(path, recursive);
    }
}
