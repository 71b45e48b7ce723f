import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Apache Kafka's console tools in one virtual machine: each command names a tool's class and its arguments, and the
 * tool's own main method runs unmodified. Commands and answers as in tests/interop/agent.py; an answer is the exit
 * status and what the tool wrote.
 */
public final class Tools {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Thrown where a tool would end the virtual machine. */
    private static final class Ended extends RuntimeException {
        private static final long serialVersionUID = 1;

        Ended() {
            super(null, null, false, false);
        }
    }

    // Some tools catch everything, so also what stands for the end of the machine: the first end is the one that counts.
    private static Integer status;

    private Tools() {}

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        // One stream for all tools: those in Scala keep the first that they see.
        ByteArrayOutputStream written = new ByteArrayOutputStream();
        PrintStream captured = new PrintStream(written, true, StandardCharsets.UTF_8);
        System.setOut(captured);
        Exit.Procedure end = (code, message) -> {
            if (message != null) captured.println(message);
            if (status == null) status = code;
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        List<Runnable> hooks = new ArrayList<>();
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));

        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JsonNode command = JSON.readTree(line);
            JsonNode with = command.get("with");
            List<String> arguments = new ArrayList<>();
            with.get("arguments").forEach(each -> arguments.add(each.asText()));
            System.setIn(new ByteArrayInputStream(with.get("input").asText().getBytes(StandardCharsets.UTF_8)));
            written.reset();
            status = null;
            run(command.get("do").asText(), arguments.toArray(new String[0]));
            hooks.forEach(Runnable::run);
            hooks.clear();
            Map<String, Object> answer = Map.of("status", status, "output", written.toString(StandardCharsets.UTF_8));
            answers.println(JSON.writeValueAsString(Map.of("id", command.get("id").asInt(), "answer", answer)));
            answers.flush();
        }
        System.exit(0);
    }

    private static void run(String tool, String[] arguments) throws Exception {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended)) {
                thrown.getCause().printStackTrace();
                if (status == null) status = 1;
            }
        }
        if (status == null) status = 0;
    }
}
