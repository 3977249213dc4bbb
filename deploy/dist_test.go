package dist

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// dockerfile returns the instructions of the Dockerfile, each with its arguments.
func dockerfile(t *testing.T) (lines [][2]string) {
	t.Helper()
	for line := range strings.Lines(read(t, "../Dockerfile")) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			word, rest, _ := strings.Cut(line, " ")
			lines = append(lines, [2]string{word, rest})
		}
	}
	return lines
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// last returns the arguments of the last instruction of a kind.
func last(lines [][2]string, word string) (rest string) {
	for _, line := range lines {
		if line[0] == word {
			rest = line[1]
		}
	}
	return rest
}

// words reads a list in the form of JSON.
func words(t *testing.T, list string) (words []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(list), &words); err != nil {
		t.Fatalf("%s: %v", list, err)
	}
	return words
}

// TestDockerfile checks the Dockerfile as an engine would, but does not build it.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	lines := dockerfile(t)
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))
	if got, want := lines[0], [2]string{"FROM", "golang:" + version[1] + " AS build"}; got != want {
		t.Errorf("the first stage is %q, want %q", got, want)
	}
	if got, want := last(lines, "FROM"), "scratch"; got != want {
		t.Errorf("the image is made from %q, want %q", got, want)
	}
	if user := last(lines, "USER"); !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user) {
		t.Errorf("USER %s, want numbers, since an empty image knows no names", user)
	}
	port := last(lines, "EXPOSE")
	if cmd := words(t, last(lines, "CMD")); !slices.Contains(cmd, "0.0.0.0:"+port) {
		t.Errorf("CMD %q does not listen on the port %s that is exposed", cmd, port)
	}
	for _, line := range lines {
		if line[0] != "COPY" {
			continue
		}
		from := strings.Fields(line[1])[0]
		if _, err := os.Stat(filepath.Join("..", from)); !strings.HasPrefix(from, "--from=") && err != nil {
			t.Errorf("COPY %s: %v", line[1], err)
		}
	}
}

// TestBuildNeedsNoC looks for a package that the Dockerfile's build would not find: one
// that is only there with cgo. Without that Go links programs that need no libraries.
func TestBuildNeedsNoC(t *testing.T) {
	t.Parallel()
	command := strings.Fields(last(dockerfile(t), "RUN"))
	if command[0] != "CGO_ENABLED=0" || !slices.Equal(command[1:3], []string{"go", "build"}) {
		t.Fatalf("RUN %q, want a build without cgo", command)
	}
	list := exec.Command("go", "list", "-deps", command[len(command)-1])
	list.Dir, list.Env = "..", append(os.Environ(), command[0], "GOOS=linux")
	if out, err := list.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", list, err, out)
	}
}

// TestProgram builds the program as the Dockerfile does, and runs it as the image would: as the
// user nobody, in a folder that holds nothing else. It needs MILLRACE_SOAK, since it compiles all
// dependencies anew, which takes a minute or two.
func TestProgram(t *testing.T) {
	t.Parallel()
	if os.Getenv("MILLRACE_SOAK") == "" {
		t.Skip("set MILLRACE_SOAK to build it")
	}
	root := t.TempDir()
	program := build(t, root)
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("only root of a Linux may make a folder the root of a program")
	}
	lines := dockerfile(t)
	command := append(words(t, last(lines, "ENTRYPOINT")), words(t, last(lines, "CMD"))...)
	if got, want := filepath.Join(root, command[0]), program; got != want {
		t.Fatalf("ENTRYPOINT is %s, and the program %s", got, want)
	}
	for i, word := range command {
		command[i] = strings.Replace(word, ":"+last(lines, "EXPOSE"), ":0", 1) // the port may be in use
	}
	run := func(env ...string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Err = nil // it was looked for in another root
		cmd.Env, cmd.Dir = env, "/"
		confine(t, cmd, root, last(lines, "USER"))
		return cmd
	}

	out, err := run().CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), "MILLRACE_AUTH") {
		t.Errorf("without credentials it says %q, %v; want exit code 2 and what to set", out, err)
	}

	server := redistest.Start(t, redistest.Options{TCP: true})
	cmd := run("MILLRACE_REDIS_URL="+server.URL(), "MILLRACE_AUTH=bearer 0123456789abcdef0123456789abcdef")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	url := regexp.MustCompile(`http://\S+/`).FindString(line)
	if err != nil || url == "" {
		t.Fatalf("it says %q, %v, %s; want its address", line, err, &stderr)
	}
	answer, err := http.Get(url + "readyz")
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("GET /readyz = %v, %v, want 200", answer, err)
	}
	if err == nil {
		answer.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v\n%s", err, &stderr)
	}
}

// build runs the Dockerfile's build, with the folder as the image's root, and
// returns where the program is. It must need nothing but the kernel.
func build(t *testing.T, root string) (program string) {
	t.Helper()
	command := last(dockerfile(t), "RUN")
	output := regexp.MustCompile(`-o (/\S+)`).FindStringSubmatch(command)
	if output == nil {
		t.Fatalf("RUN %s does not say where the program goes", command)
	}
	program = filepath.Join(root, output[1])
	cmd := exec.Command("sh", "-c", strings.Replace(command, output[1], program, 1))
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	if runtime.GOOS == "linux" {
		wantStatic(t, program)
	}
	return program
}

func wantStatic(t *testing.T, program string) {
	t.Helper()
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program has a part %s: it needs libraries, of which there are none", p.Type)
		}
	}
}

// TestUnit has systemd check the unit, as it is and with the drop-in.
func TestUnit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip(err)
	}
	for _, dropIn := range []string{"", "millrace.service.d/public.conf"} {
		folder := t.TempDir()
		unit := filepath.Join(folder, "millrace.service")
		for _, name := range []string{"millrace.service", dropIn} {
			if name == "" {
				continue
			}
			// The program that is installed there may be none.
			text := strings.ReplaceAll(read(t, name), "/usr/local/bin/millrace", "/bin/true")
			path := filepath.Join(folder, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := exec.Command("systemd-analyze", "verify", unit).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("verify, with %q: %v\n%s", dropIn, err, out)
		}
		// From 0, for nothing that could be harmed, to 100.
		out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=20", unit).CombinedOutput()
		if strings.Contains(string(out), "unrecognized option") {
			t.Log("this systemd-analyze cannot judge a unit that is not loaded")
		} else if err != nil {
			t.Errorf("security, with %q: %v\n%s", dropIn, err, out)
		}
	}
}
