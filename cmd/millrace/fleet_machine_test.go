package main

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/internal/test/redistest"
)

// network is a network of machines: addresses of the loopback device, 127.X.Y.N, which no other test has.
type network struct {
	prefix string // 127.X.Y.
	root   string // of the files of all machines
}

func newNetwork(t *testing.T) network {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8")
	}
	for i := range 100 {
		pid := os.Getpid() + i
		n := network{fmt.Sprintf("127.%d.%d.", 1+pid/200%200, 1+pid%200), t.TempDir()}
		if taken, err := net.Listen("tcp", n.prefix+"254:7000"); err == nil {
			t.Cleanup(func() { _ = taken.Close() })
			return n
		}
	}
	t.Fatal("all networks are taken")
	return network{}
}

// machine is one, with its files and a systemd that knows units with Restart=always.
type machine struct {
	t    *testing.T
	addr string
	root string
	env  []string // of services
	log  *redistest.Log

	units map[string]*unit // that were started
}

// boots returns an empty machine.
func (n network) boots(t *testing.T, number int) *machine {
	t.Helper()
	m := &machine{
		t: t, addr: n.prefix + strconv.Itoa(number), root: filepath.Join(n.root, strconv.Itoa(number)),
		env: append(os.Environ(), asCommand+"=1"), log: new(redistest.Log), units: map[string]*unit{},
	}
	if err := os.RemoveAll(m.root); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"etc/systemd/system", "var/lib"} {
		if err := os.MkdirAll(filepath.Join(m.root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		m.dies()
		if t.Failed() {
			lines := strings.SplitAfter(m.log.String(), "\n")
			t.Logf("the services of %s say at last:\n%s", m.addr, strings.Join(lines[max(0, len(lines)-lastLines):], ""))
		}
	})
	return m
}

// lastLines is how many lines of the services' output a failure shows.
const lastLines = 30

// unit is a service that was started.
type unit struct {
	mu      sync.Mutex
	process *os.Process
	stopped bool

	ended chan struct{} // closed when nothing runs any more
}

// end ends a service, and its supervision.
func (u *unit) end(signal os.Signal) {
	u.mu.Lock()
	u.stopped = true
	if u.process != nil {
		_ = u.process.Signal(signal) // it may have ended
	}
	u.mu.Unlock()
	<-u.ended
}

// dies is a loss of power.
func (m *machine) dies() {
	for name, u := range m.units {
		u.end(syscall.SIGKILL)
		delete(m.units, name)
	}
}

// systemctl is the command.
func (m *machine) systemctl(args ...string) error {
	verb, units := args[0], args[1:]
	now := len(units) > 0 && units[0] == "--now"
	if now {
		units = units[1:]
	}
	for _, name := range units {
		switch running := m.units[name]; verb {
		case "enable", "disable", "start", "stop", "restart":
			if running != nil && (verb == "stop" || verb == "restart" || verb == "disable" && now) {
				running.end(syscall.SIGTERM)
				delete(m.units, name)
			}
			if m.units[name] == nil && (verb == "start" || verb == "restart" || verb == "enable" && now) {
				if err := m.start(name); err != nil {
					return err
				}
			}
		default:
			return fmt.Errorf("systemctl %s is not played here", verb)
		}
	}
	return nil
}

// start starts a service, and returns when a server answers.
func (m *machine) start(name string) error {
	settings, err := m.settings(name)
	if err != nil {
		return err
	}
	state := settings["StateDirectory"]
	if err := os.MkdirAll(filepath.Join(m.root, "var/lib", state), 0o700); err != nil {
		return err
	}
	command, isServer := "exec "+settings["ExecStart"], strings.Contains(settings["ExecStart"], " --port ")
	if isServer { // which has only this address on a machine of its own
		command += " --repl-diskless-sync-delay 0 --bind " + m.addr + " --replica-announce-ip " + m.addr
	}
	pause, err := time.ParseDuration(cmp.Or(settings["RestartSec"], "0.1") + "s")
	if err != nil || settings["Restart"] != "always" {
		return fmt.Errorf("%s is not restarted always: Restart=%s, RestartSec=%s", name, settings["Restart"], settings["RestartSec"])
	}
	u := &unit{ended: make(chan struct{})}
	m.units[name] = u
	go m.supervise(u, "set -a && . "+settings["EnvironmentFile"]+" && "+command, pause)
	if port := regexp.MustCompile(` --port (\d+)`).FindStringSubmatch(command); isServer {
		redistest.Eventually(m.t, name+" of "+m.addr+" answers", func() bool {
			c, err := net.Dial("tcp", m.addr+":"+port[1])
			if err == nil {
				_ = c.Close()
			}
			return err == nil
		})
	}
	return nil
}

// settings reads a unit and its drop-ins; of a setting that is there twice the last one counts.
func (m *machine) settings(name string) (map[string]string, error) {
	template, instance, isInstance := strings.Cut(name, "@")
	folder, file := filepath.Join(m.root, "etc/systemd/system"), name+".service"
	if isInstance {
		file = template + "@.service"
	}
	dropIns, err := filepath.Glob(filepath.Join(folder, name+".service.d", "*.conf"))
	if err != nil {
		return nil, err
	}
	settings := map[string]string{}
	for _, path := range append([]string{filepath.Join(folder, file)}, dropIns...) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(strings.NewReplacer("\\\n", "", "%i", instance).Replace(string(text))) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
				settings[key] = value
			}
		}
	}
	return settings, nil
}

// supervise runs a command until the unit is stopped, again and again. The kernel ends it with
// the thread that started it.
func (m *machine) supervise(u *unit, command string, pause time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(u.ended)
	for again := false; ; again = true {
		if again {
			time.Sleep(pause) // as RestartSec has it
		}
		run := exec.Command("bash", "-c", command)
		run.Env, run.Stdout, run.Stderr, run.SysProcAttr = m.env, m.log, m.log, redisproc.Attributes()
		u.mu.Lock()
		stopped, err := u.stopped, error(nil)
		if !stopped {
			err = run.Start()
			u.process = run.Process
		}
		u.mu.Unlock()
		if stopped || err != nil {
			if err != nil {
				m.t.Errorf("%s of %s: %v", command, m.addr, err)
			}
			return
		}
		fmt.Fprintf(m.log, "%s: %v\n", command, run.Wait())
	}
}
