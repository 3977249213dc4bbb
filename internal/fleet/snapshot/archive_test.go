package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
)

// files returns the names in an archive, except for that of the map.
func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), mapSuffix) {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestArchiveIsRestored archives the data of a replica, and has a new server read
// it.
func TestArchiveIsRestored(t *testing.T) {
	t.Parallel()
	b := start(t, single)
	replica, dir := b.f.Servers()[1], t.TempDir()
	forks := b.forks(replica)
	k := b.keeper(Config{Archive: dir, Keep: 2})
	var taken []string
	for i := range 3 {
		b.ask(b.f.Servers()[0], "SET", "round", strconv.Itoa(i))
		s, err := now(deadline(t), k)
		if err != nil {
			t.Fatal(err)
		}
		if s.Saved.Addr != replica.Addr || s.Archived.Addr != replica.Addr || !s.Archived.At.Equal(s.Saved.At) {
			t.Errorf("Now = %+v, want the replica's, saved and archived", s)
		}
		taken = append(taken, s.Archived.File)
		known := b.known()
		if known.Archived.File != s.Archived.File || known.Archived.Bytes != s.Archived.Bytes || b.ages().Archived.Partition != 0 {
			t.Errorf("the directory knows %+v, want %+v", known.Archived, s.Archived)
		}
	}
	if got := b.forks(replica) - forks; got != 3 {
		t.Errorf("the replica has had %d children for 3 archived snapshots", got)
	}
	if got, want := files(t, dir), taken[1:]; !slices.Equal(got, want) {
		t.Errorf("in the archive: %q, want the newest two of %q", got, taken)
	}

	m, err := b.dir.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range taken[1:] {
		path := filepath.Join(dir, name)
		if _, err := time.Parse(stamp, name[:len(stamp)]); err != nil || name[len(stamp):] != "-"+m.Fleet+"-0.rdb" {
			t.Errorf("an archived file is called %q: %v", name, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v, want it to be private", name, info.Mode(), err)
		}
		if _, err := checkByTool(t.Context(), path); err != nil {
			t.Error(err)
		}
		restored := restore(t, path)
		for key, want := range map[string]string{
			"round": strconv.Itoa(i + 1), "key:200": strings.Repeat("x", 100), members.IdentityKey: members.Identity(m.Fleet, 0),
		} {
			if got := do(t, restored, "GET", key); got != want {
				t.Errorf("%s of the restored server = %q, want %q", key, got, want)
			}
		}
	}
}

// The server that hands out a snapshot has it on its own disk as well.
func TestArchiveOfAMaster(t *testing.T) {
	t.Parallel()
	b := start(t, devfleet.Config{Nodes: 1, Partitions: 1, Replicas: devfleet.NoReplicas})
	s, err := now(deadline(t), b.keeper(Config{Archive: t.TempDir()}))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(b.f.Servers()[0].Proc.Dir(), "dump.rdb"))
	if err != nil || info.Size() != s.Archived.Bytes {
		t.Errorf("on the member's disk: %v, %v, want %d bytes", info, err, s.Archived.Bytes)
	}
	if got := b.info(b.f.Servers()[0], "connected_slaves"); got != "0" {
		t.Errorf("the master has %s replicas afterwards, want none", got)
	}
}

// An archive that cannot be written does not prevent saves.
func TestArchiveThatIsNotThere(t *testing.T) {
	t.Parallel()
	b := start(t, single)
	dir := filepath.Join(t.TempDir(), "not mounted")
	k := b.keeper(Config{Archive: dir})
	s, err := now(deadline(t), k)
	wantError(t, "Now", err, ErrArchive)
	known := b.known()
	if s.Saved.Addr == "" || s.Archived.File != "" || known.Saved.Addr == "" || known.Archived.File != "" || known.Failed.Why != err.Error() {
		t.Errorf("Now = %+v, the directory knows %+v, want what was saved, and why it was not archived", s, known)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if s, err = now(deadline(t), k); err != nil || !slices.Equal(files(t, dir), []string{s.Archived.File}) {
		t.Errorf("Now = %+v, %v, and in the archive: %q", s, err, files(t, dir))
	}
}

// A member that does not hand its data out does not prevent saves either.
func TestArchiveWithoutTheRight(t *testing.T) {
	t.Parallel()
	b := start(t, single)
	for _, s := range b.f.Servers() {
		b.ask(s, "ACL", "SETUSER", "keeper", "on", ">secret", "~*", "+@all", "-psync")
	}
	dir := t.TempDir()
	k := b.keeper(Config{Archive: dir, Option: rueidis.ClientOption{Username: "keeper", Password: "secret"}})
	s, err := now(deadline(t), k)
	wantError(t, "Now", err, ErrArchive)
	if s.Saved.Addr == "" || len(files(t, dir)) != 0 {
		t.Errorf("Now = %+v, and in the archive: %q, want it saved alone", s, files(t, dir))
	}
	for _, s := range b.f.Servers() {
		b.ask(s, "ACL", "SETUSER", "keeper", "+psync")
	}
	if s, err = now(deadline(t), k); err != nil || s.Archived.Bytes == 0 {
		t.Errorf("Now = %+v, %v, want it archived", s, err)
	}
}

// A save that another replica had asked for began before, and is not taken for one's
// own.
func TestAnothersSnapshotIsNotFetched(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TCP: true, Args: []string{"--rdb-key-save-delay", "10000000"}})
	pool := newPool(rueidis.ClientOption{})
	do(t, server, "SET", "key", "1")
	another, err := pool.request(t.Context(), server.Addr(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer another.close()
	do(t, server, "SET", "key", "2")

	w := &work{k: New(nil, Config{Archive: t.TempDir()}), pool: newPool(rueidis.ClientOption{})}
	defer w.pool.Close()
	before, err := w.pool.probe(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.fetch(t.Context(), archiveName{"fleet", 0, time.Now()}, server.Addr(), before)
	wantError(t, "fetch", err, errBusy)
	if got := files(t, w.k.cfg.Archive); len(got) != 0 {
		t.Errorf("in the archive: %q", got)
	}
}

// real returns a snapshot as a server writes it.
func real(t *testing.T, args ...string) []byte {
	t.Helper()
	server := redistest.Start(t, redistest.Options{TCP: true, Args: args})
	do(t, server, "SET", "key", strings.Repeat("value", 100))
	l, err := newPool(rueidis.ClientOption{}).request(t.Context(), server.Addr(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	var out bytes.Buffer
	if n, err := l.receive(&out); err != nil || n != int64(out.Len()) {
		t.Fatalf("receive = %d, %v of %d", n, err, out.Len())
	}
	return out.Bytes()
}

// member answers as a server does that begins a snapshot and then sends this, and
// returns its address.
func member(t *testing.T, then []byte) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.ReadAtLeast(conn, make([]byte, 1000), len("*3\r\n$8\r\nREPLCONF\r\n$8\r\nrdb-only\r\n$1\r\n1\r\n"))
		_, _ = io.WriteString(conn, "-ERR Unrecognized REPLCONF option\r\n")
		_, _ = io.ReadAtLeast(conn, make([]byte, 1000), len("*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n"))
		_, _ = io.WriteString(conn, "\n\n+FULLRESYNC abc 7\r\n\n\n")
		_, _ = conn.Write(then)
	}()
	return listener.Addr().String()
}

// received has a member send this, and returns the files of the archive and the error.
func received(t *testing.T, sent []byte) (names []string, err error) {
	t.Helper()
	w := &work{k: New(nil, Config{Archive: t.TempDir()}), pool: newPool(rueidis.ClientOption{})}
	defer w.pool.Close()
	f, err := w.fetch(t.Context(), archiveName{"fleet", 0, time.Now()}, member(t, sent), members.Report{End: 7})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.finish(t.Context(), w.k.cfg)
	f.close()
	return files(t, w.k.cfg.Archive), err
}

// TestNothingHalfWrittenIsArchived: a transfer that is cut off, wrong in one bit or no snapshot leaves no file.
func TestNothingHalfWrittenIsArchived(t *testing.T) {
	t.Parallel()
	rdb := real(t)
	bulk := func(body []byte) []byte { return append([]byte("$"+strconv.Itoa(len(body))+"\r\n"), body...) }
	if names, err := received(t, bulk(rdb)); err != nil || len(names) != 1 || !strings.HasSuffix(names[0], "-fleet-0.rdb") {
		t.Fatalf("a whole snapshot: %v, and in the archive: %q", err, names)
	}
	wrong := slices.Clone(rdb)
	wrong[rand.N(len(rdb))] ^= 1 << rand.N(8)
	for what, sent := range map[string][]byte{
		"nothing":                nil,
		"no length":              []byte("$EOF:0123456789012345678901234567890123456789\r\n"),
		"length 0":               []byte("$0\r\n"),
		"too little":             bulk(rdb)[:len(rdb)-rand.N(len(rdb))],
		"an empty body":          []byte("$1000\r\n"),
		"a length too small":     append([]byte("$"+strconv.Itoa(len(rdb)-1)+"\r\n"), rdb...),
		"a wrong bit":            bulk(wrong),
		"another file":           bulk(bytes.Repeat([]byte("REDIS"), 100)),
		"a very short file":      bulk([]byte("REDIS")),
		"a snapshot's head":      bulk(slices.Concat(rdb[:len(rdb)/2], make([]byte, 9))),
		"zeros at the end":       bulk(slices.Concat(rdb[:len(rdb)-9], make([]byte, 9))),
		"zeros at the beginning": bulk(slices.Concat(make([]byte, 9), rdb[9:])),
	} {
		if names, err := received(t, sent); err == nil || len(names) != 0 {
			t.Errorf("%s: %v, and in the archive: %q", what, err, names)
		} else {
			wantError(t, what, err, ErrArchive)
		}
	}
}

// A server with rdbchecksum off stores no checksum by which a wrong bit could be found;
// the tools that come with servers only find files that are no snapshots. The tool on PATH
// may be older than the server: an unknown format is no fault of the file.
func TestSnapshotWithoutChecksum(t *testing.T) {
	t.Setenv("PATH", filepath.Dir(redistest.Binary(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	rdb := real(t, "--rdbchecksum", "no")
	write := func(text []byte) string {
		path := filepath.Join(t.TempDir(), "x.rdb")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	check := func(text []byte) error { return checkRDB(t.Context(), write(text), int64(len(text)), io.Discard) }
	if err := check(rdb); err != nil {
		t.Error(err)
	}
	for _, head := range []string{"REDIS9999", "VALKEY999"} { // the latter of Valkey 9.1
		if err := check(append([]byte(head), rdb[len(head):]...)); err != nil {
			t.Errorf("a snapshot that begins with %q: %v", head, err)
		}
	}
	if checked, _ := checkByTool(t.Context(), write(rdb)); !checked {
		t.Skip("there is no tool on PATH that reads this server's snapshots")
	}
	if err := check(slices.Concat(rdb[:len(rdb)/2], rdb[len(rdb)/2+1:])); err == nil {
		t.Error("a snapshot that lacks a byte passes")
	}
}

// TestChecksum: the checksum of a snapshot is that which a server writes.
func TestChecksum(t *testing.T) {
	t.Parallel()
	if got, want := crc(crc(0, []byte("1234")), []byte("56789")), uint64(0xe9c6d914c4b8d9ca); got != want {
		t.Errorf("crc = %016x, want %016x", got, want)
	}
	rdb := real(t)
	body, sum := rdb[:len(rdb)-8], binary.LittleEndian.Uint64(rdb[len(rdb)-8:])
	if got := crc(0, body); got != sum {
		t.Errorf("crc of a server's snapshot = %016x, it says %016x", got, sum)
	}
}

// A disk that fills up while the snapshot comes in leaves the archive as it was.
func TestFullArchive(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	dir, rdb := t.TempDir(), real(t)
	good := archiveName{"fleet", 0, time.Now().Add(-time.Hour)}.String()
	if err := os.WriteFile(filepath.Join(dir, good), rdb, 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "full"+part)
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	sent := append([]byte("$"+strconv.Itoa(len(rdb))+"\r\n"), rdb...)
	l, err := newPool(rueidis.ClientOption{}).request(t.Context(), member(t, sent), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	name := archiveName{"fleet", 0, time.Now()}
	f := &fetch{name: name, draft: &draft{file, filepath.Join(dir, name.String())}, link: l}
	_, err = f.finish(t.Context(), Config{Archive: dir, Keep: 1})
	wantError(t, "finish", err, ErrArchive)
	f.close()
	if got, want := files(t, dir), []string{good}; !slices.Equal(got, want) {
		t.Errorf("in the archive: %q, want %q", got, want)
	}
}

// TestRotation: of a partition the newest files stay, and others are left alone.
func TestRotation(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 14, 15, 9, 26, 535e6, time.UTC)
	name := func(fleet string, id int, hours int) string {
		return archiveName{fleet, id, at.Add(time.Duration(hours) * time.Hour)}.String()
	}
	if got, want := name("a/b", 7, 0), "20260314T150926.535Z-a%2Fb-7.rdb"; got != want {
		t.Errorf("name = %q, want %q", got, want)
	}
	ours := []string{name("a", 1, 0), name("a", 1, 1), name("a", 1, 24), name("a", 1, 24*365)}
	others := []string{name("a", 11, 0), name("b", 1, 0), name("x-a", 1, 0), name("a", 1, 0) + ".bak", "notes.txt", "-a-1.rdb", name("a", 1, 5) + ".NEW" + part}
	abandonedPart := name("a", 1, 3) + ".OLD" + part
	for _, c := range []struct{ stay, left int }{{0, 1}, {1, 1}, {3, 3}, {4, 4}, {9, 4}} {
		dir := t.TempDir()
		for _, f := range slices.Concat(ours, others, []string{abandonedPart}) {
			if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		old := time.Now().Add(-2 * abandoned)
		if err := os.Chtimes(filepath.Join(dir, abandonedPart), old, old); err != nil {
			t.Fatal(err)
		}
		if err := (archiveName{"a", 1, at}).rotate(dir, c.stay); err != nil {
			t.Error(err)
		}
		if d, err := newDraft(dir, "new.rdb"); err != nil {
			t.Error(err)
		} else {
			d.discard()
		}
		want := slices.Sorted(slices.Values(slices.Concat(ours[len(ours)-c.left:], others)))
		if got := files(t, dir); !slices.Equal(got, want) {
			t.Errorf("with %d to stay there are %q, want %q", c.stay, got, want)
		}
	}
}

// A failure to remove old files is reported, and the new snapshot is archived.
func TestRotationFails(t *testing.T) {
	t.Parallel()
	dir, rdb := t.TempDir(), real(t)
	stuck := filepath.Join(dir, archiveName{"fleet", 0, time.Now().Add(-time.Hour)}.String())
	if err := os.MkdirAll(filepath.Join(stuck, "not empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := &work{k: New(nil, Config{Archive: dir, Keep: 1}), pool: newPool(rueidis.ClientOption{})}
	defer w.pool.Close()
	sent := append([]byte("$"+strconv.Itoa(len(rdb))+"\r\n"), rdb...)
	f, err := w.fetch(t.Context(), archiveName{"fleet", 0, time.Now()}, member(t, sent), members.Report{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	done, err := f.finish(t.Context(), w.k.cfg)
	wantError(t, "finish", err, ErrArchive)
	if got := files(t, dir); done.File == "" || len(got) != 2 || got[1] != done.File {
		t.Errorf("archived: %+v, and there are %q", done, got)
	}
}

// A member that says nothing is not waited for for ever, nor by a caller that has
// gone.
func TestSilentMember(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TCP: true})
	server.Pause()
	defer server.Resume()
	pool := newPool(rueidis.ClientOption{})
	if _, err := pool.request(t.Context(), server.Addr(), 50*time.Millisecond); err == nil {
		t.Error("a paused server answers")
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := pool.request(ctx, server.Addr(), time.Minute)
	wantError(t, "request", err, context.Canceled)
}

// TestTools: each tool is asked until one knows the format of a snapshot.
func TestTools(t *testing.T) {
	const (
		fine    = "exit 0"
		bad     = "echo '[offset 9] Unexpected EOF reading RDB file'; exit 1"
		unknown = "echo \"[offset 9] Can't handle RDB format version 12\"; exit 1"
	)
	for _, tc := range []struct {
		redis, valkey string // the scripts of the tools; "" for no tool
		checked, ok   bool
	}{
		{"", "", false, true},
		{fine, "", true, true},
		{bad, fine, true, false},
		{unknown, "", false, true},
		{unknown, fine, true, true},
		{unknown, bad, true, false},
		{"", bad, true, false},
		{unknown, unknown, false, true},
	} {
		path := t.TempDir()
		t.Setenv("PATH", path)
		for name, does := range map[string]string{"redis-check-rdb": tc.redis, "valkey-check-rdb": tc.valkey} {
			if does == "" {
				continue
			}
			redistest.WriteScript(t, filepath.Join(path, name), does)
		}
		if checked, err := checkByTool(t.Context(), "x.rdb"); checked != tc.checked || (err == nil) != tc.ok {
			t.Errorf("with tools that do %q and %q a snapshot is checked: %v, %v; want %v, fine: %v", tc.redis, tc.valkey, checked, err, tc.checked, tc.ok)
		}
	}
}
