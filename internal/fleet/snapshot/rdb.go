package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"math/bits"
	"os"
	"os/exec"
	"slices"
)

// crcTable is of the polynomial of Jones, which Redis uses.
var crcTable = crc64.MakeTable(bits.Reverse64(0xad93d23594c935a9))

// crc continues a checksum of Redis. The standard library inverts all bits at the beginning
// and at the end, Redis does not.
func crc(sum uint64, text []byte) uint64 { return ^crc64.Update(^sum, crcTable, text) }

// checksum computes the checksum of the bytes written to it, until ctx ends.
type checksum struct {
	ctx context.Context
	sum uint64
}

func (c *checksum) Write(text []byte) (int, error) {
	c.sum = crc(c.sum, text)
	return len(text), c.ctx.Err()
}

// rdbEnd stands before the checksum.
const rdbEnd = 0xff

// checkRDB returns nil if a file is a complete snapshot of that length. It copies the bytes that it
// reads to reader.
func checkRDB(ctx context.Context, path string, length int64, reader io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	const shortest = 9 + 1 + 8 // the head, the end mark, the checksum
	if info.Size() != length || length < shortest {
		return fmt.Errorf("the file has %d bytes of %d", info.Size(), length)
	}
	var head, tail [9]byte
	if _, err := file.ReadAt(head[:], 0); err != nil {
		return err
	}
	if _, err := file.ReadAt(tail[:], length-int64(len(tail))); err != nil {
		return err
	}
	if !bytes.HasPrefix(head[:], []byte("REDIS")) && !bytes.HasPrefix(head[:], []byte("VALKEY")) || tail[0] != rdbEnd {
		return errors.New("the file does not begin or end as a snapshot does")
	}
	sum := checksum{ctx: ctx}
	if _, err := io.CopyBuffer(io.MultiWriter(&sum, reader), io.NewSectionReader(file, 0, length-8), make([]byte, transferBuffer)); err != nil {
		return err
	}
	want := binary.LittleEndian.Uint64(tail[1:])
	switch {
	case want == 0: // the server has rdbchecksum off
		_, err = checkByTool(ctx, path)
	case sum.sum != want:
		err = fmt.Errorf("the file has the checksum %016x, and contains %016x", sum.sum, want)
	}
	return err
}

// tools check snapshots of their own server and of older ones.
var tools = []string{"redis-check-rdb", "valkey-check-rdb"}

// unreadable are errors of a tool for a snapshot that is newer than the tool, or of another
// server.
var unreadable = []string{"Can't handle RDB format version", "Wrong signature trying to load DB from file"}

// checkByTool checks a snapshot without a checksum with the first tool on PATH that knows its
// format. Without such a tool the snapshot passes unchecked.
func checkByTool(ctx context.Context, path string) (checked bool, err error) {
	for _, name := range tools {
		tool, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, tool, path).CombinedOutput()
		if err == nil {
			return true, nil
		}
		if !slices.ContainsFunc(unreadable, func(words string) bool { return bytes.Contains(out, []byte(words)) }) {
			out = bytes.TrimSpace(out)
			return true, fmt.Errorf("%s: %w: %s", tool, err, out[max(0, len(out)-200):])
		}
	}
	return false, nil
}
