import java.io.File;
import java.util.List;
import org.apache.maven.repository.internal.MavenRepositorySystemUtils;
import org.eclipse.aether.DefaultRepositorySystemSession;
import org.eclipse.aether.RepositorySystem;
import org.eclipse.aether.artifact.DefaultArtifact;
import org.eclipse.aether.collection.CollectRequest;
import org.eclipse.aether.connector.basic.BasicRepositoryConnectorFactory;
import org.eclipse.aether.graph.Dependency;
import org.eclipse.aether.impl.DefaultServiceLocator;
import org.eclipse.aether.repository.LocalRepository;
import org.eclipse.aether.repository.RemoteRepository;
import org.eclipse.aether.repository.RepositoryPolicy;
import org.eclipse.aether.resolution.ArtifactResult;
import org.eclipse.aether.resolution.DependencyRequest;
import org.eclipse.aether.spi.connector.RepositoryConnectorFactory;
import org.eclipse.aether.spi.connector.transport.TransporterFactory;
import org.eclipse.aether.transport.file.FileTransporterFactory;

/**
 * What Maven resolves for a dependency, by Maven's own resolver, from one folder and from nowhere
 * else: one line an artifact, its coordinates and its file. Every file must have its checksums.
 *
 * <p>Arguments: the repository's folder, a folder for the local repository, and the dependency,
 * {@code group:artifact:extension[:classifier]:version}.
 */
final class Resolve {
  public static void main(String[] words) throws Exception {
    DefaultServiceLocator locator = MavenRepositorySystemUtils.newServiceLocator();
    locator.addService(RepositoryConnectorFactory.class, BasicRepositoryConnectorFactory.class);
    locator.addService(TransporterFactory.class, FileTransporterFactory.class);
    RepositorySystem system = locator.getService(RepositorySystem.class);
    DefaultRepositorySystemSession session = MavenRepositorySystemUtils.newSession();
    session.setLocalRepositoryManager(
        system.newLocalRepositoryManager(session, new LocalRepository(new File(words[1]))));
    session.setChecksumPolicy(RepositoryPolicy.CHECKSUM_POLICY_FAIL);
    RemoteRepository from =
        new RemoteRepository.Builder("app", "default", new File(words[0]).toURI().toString())
            .build();
    CollectRequest wanted =
        new CollectRequest(
            new Dependency(new DefaultArtifact(words[2]), "compile"), List.of(from));
    for (ArtifactResult one :
        system.resolveDependencies(session, new DependencyRequest(wanted, null))
            .getArtifactResults()) {
      System.out.println(one.getArtifact() + " " + one.getArtifact().getFile());
    }
  }
}
