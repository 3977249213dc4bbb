package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
)

// work is what all indexers together did, as they told it. What a killed one did
// and the next did again counts twice.
type work struct{ documents, batches, overtaken int }

// keeper runs the indexer's process: this program again, with other arguments.
type keeper struct {
	args []string                // URL of Redis, name of the channel, folder with database and index
	fail context.CancelCauseFunc // told when an indexer ends by itself

	work work // complete when no indexer runs
	life *life
}

// life is one process.
type life struct {
	process *os.Process
	stdin   io.Closer
	ending  atomic.Bool   // by our doing
	ended   chan struct{} // closed when it has
	err     error         // how; to be read then
}

// start starts an indexer, the one before having ended.
func (k *keeper) start() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, append([]string{indexerCommand}, k.args...)...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the indexer: %w", err)
	}
	l := &life{process: cmd.Process, stdin: stdin, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		k.work.listen(stdout)
		if l.err = cmd.Wait(); !l.ending.Load() {
			k.fail(fmt.Errorf("the indexer ended by itself: %s", cmd.ProcessState))
		}
	}()
	k.life = l
	return nil
}

// listen adds up the lines of an indexer until it ends.
func (w *work) listen(lines io.Reader) {
	for {
		var documents, overtaken int
		if _, err := fmt.Fscanln(lines, &documents, &overtaken); err != nil {
			return
		}
		w.documents += documents
		w.overtaken += overtaken
		w.batches++
	}
}

// kill ends the indexer with SIGKILL, whatever it is doing. When kill returns
// the process is gone, and its lock on the index with it.
func (k *keeper) kill() error {
	k.life.ending.Store(true)
	err := k.life.process.Kill()
	<-k.life.ended
	return err
}

// stop ends the indexer in peace: it closes index and database itself.
func (k *keeper) stop() error {
	k.life.ending.Store(true)
	err := k.life.stdin.Close()
	<-k.life.ended
	return errors.Join(err, k.life.err)
}
