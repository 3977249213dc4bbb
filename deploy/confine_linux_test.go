package dist

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"
)

// confine has a command run as a user, "UID:GID", with a folder as its root.
func confine(t *testing.T, cmd *exec.Cmd, root, user string) {
	t.Helper()
	var uid, gid uint32
	if _, err := fmt.Sscanf(user, "%d:%d", &uid, &gid); err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uid, Gid: gid}}
}
