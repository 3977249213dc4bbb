package etcd

import "fmt"

// firstFixed is the first release of each series 3.x whose linearizable reads are never
// stale; from 3.7 on all are. Before, a member that was paused, or that was asked while the
// leader changed, could answer with a replaced value: etcd issues 20418, 21417, 21421 and
// 21423. A confirmation is such a read, so a client could write by an old map.
var firstFixed = map[int]int{4: 42, 5: 28, 6: 9}

const fixedVersions = "3.4.42, 3.5.28 or 3.6.9"

// isOld reports whether a version of etcd may answer linearizable reads with old data, or is
// no version.
func isOld(version string) bool {
	var major, minor, patch int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); err != nil {
		return true
	}
	fixed, known := firstFixed[minor]
	switch {
	case major != 3:
		return major < 3
	case known:
		return patch < fixed
	default:
		return minor < 7
	}
}
