import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.CallbackHandler;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.callback.PasswordCallback;
import javax.security.auth.x500.X500Principal;
import javax.security.sasl.SaslClient;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.scram.internals.ScramFormatter;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.scram.internals.ScramSaslClient;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

/** Answers, line by line, what Java and stock Kafka say: a word, then fields in base64; "=" and a field, or "!" and an error. */
public final class SecurityOracle {
    private StandardAuthorizer authorizer;
    private SaslClient client;

    public static void main(String[] args) throws Exception {
        SecurityOracle oracle = new SecurityOracle();
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            String[] fields = new String[words.length - 1];
            for (int i = 0; i < fields.length; i++) {
                fields[i] = new String(Base64.getDecoder().decode(words[i + 1]), StandardCharsets.UTF_8);
            }
            String answer;
            try {
                answer = "=" + encoded(oracle.answer(words[0], fields));
            } catch (Throwable error) {
                answer = "!" + encoded(error.toString());
            }
            out.println(answer);
        }
    }

    private static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    private String answer(String word, String[] f) throws Exception {
        switch (word) {
            case "name":
                return new X500Principal(HexFormat.of().parseHex(f[0])).getName();
            case "map":
                return SslPrincipalMapper.fromRules(f[0]).getName(f[1]);
            case "credential":
                return credential(f[0], f[1], f[2], Integer.parseInt(f[3]));
            case "client":
                client = new ScramSaslClient(ScramMechanism.forMechanismName(f[0]), handler(f[1], f[2]));
                return text(client.evaluateChallenge(new byte[0]));
            case "challenge":
                byte[] next = client.evaluateChallenge(f[0].getBytes(StandardCharsets.UTF_8));
                return client.isComplete() ? "complete" : text(next);
            case "authorizer":
                return authorizer(f[0], f[1]);
            case "entry":
                authorizer.addAcl(Uuid.randomUuid(), entry(f));
                return "";
            case "ask":
                return ask(f);
            case "ask-any":
                return askAny(f);
            default:
                throw new IllegalArgumentException(word);
        }
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static String credential(String mechanism, String password, String salt, int iterations) throws Exception {
        ScramFormatter formatter = new ScramFormatter(ScramMechanism.forMechanismName(mechanism));
        byte[] saltBytes = HexFormat.of().parseHex(salt);
        byte[] salted = formatter.saltedPassword(password, saltBytes, iterations);
        ScramCredential made = formatter.generateCredential(saltBytes, salted, iterations);
        return HexFormat.of().formatHex(made.storedKey()) + " " + HexFormat.of().formatHex(made.serverKey());
    }

    private static CallbackHandler handler(String user, String password) {
        return callbacks -> {
            for (Callback each : callbacks) {
                if (each instanceof NameCallback) {
                    ((NameCallback) each).setName(user);
                } else if (each instanceof PasswordCallback) {
                    ((PasswordCallback) each).setPassword(password.toCharArray());
                }
            }
        };
    }

    private String authorizer(String superUsers, String allowEveryone) throws Exception {
        authorizer = new StandardAuthorizer();
        Map<String, Object> configs = new HashMap<>();
        configs.put("node.id", "1");
        configs.put("super.users", superUsers);
        configs.put("allow.everyone.if.no.acl.found", allowEveryone);
        authorizer.configure(configs);
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.completeInitialLoad();
        return "";
    }

    private static StandardAcl entry(String[] f) {
        return new StandardAcl(
            ResourceType.fromCode(Byte.parseByte(f[0])), f[1], PatternType.fromCode(Byte.parseByte(f[2])), f[3], f[4],
            AclOperation.fromCode(Byte.parseByte(f[5])), AclPermissionType.fromCode(Byte.parseByte(f[6])));
    }

    private String ask(String[] f) throws Exception {
        KafkaPrincipal principal = SecurityUtils.parseKafkaPrincipal(f[0]);
        InetAddress address = InetAddress.getByName(f[1]);
        ResourcePattern resource = new ResourcePattern(
            ResourceType.fromCode(Byte.parseByte(f[3])), f[4], PatternType.LITERAL);
        Action action = new Action(AclOperation.fromCode(Byte.parseByte(f[2])), resource, 1, false, false);
        return authorizer.authorize(new Asking(principal, address), List.of(action)).get(0).toString();
    }

    private String askAny(String[] f) throws Exception {
        Asking asking = new Asking(SecurityUtils.parseKafkaPrincipal(f[0]), InetAddress.getByName(f[1]));
        AclOperation operation = AclOperation.fromCode(Byte.parseByte(f[2]));
        return authorizer.authorizeByResourceType(asking, operation, ResourceType.fromCode(Byte.parseByte(f[3]))).toString();
    }

    private record Asking(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "CONTROLLER";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.SSL;
        }

        @Override
        public int requestType() {
            return 44;
        }

        @Override
        public int requestVersion() {
            return 1;
        }

        @Override
        public String clientId() {
            return "";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }
}
