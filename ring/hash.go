package ring

import (
	"crypto/sha1" //nolint:gosec // for its even spread, not for secrets
	"encoding/binary"
)

// Position returns where a tag lies on the ring: the SHA-1 of its bytes, folded by
// XOR. The 20 bytes are taken as numbers of 8, 8 and 4 bytes, the most
// significant byte first, and the last is the low half of its 64 bits.
func Position(tag string) uint64 {
	sum := sha1.Sum([]byte(tag)) //nolint:gosec // see the import
	return binary.BigEndian.Uint64(sum[0:8]) ^ binary.BigEndian.Uint64(sum[8:16]) ^ uint64(binary.BigEndian.Uint32(sum[16:20]))
}
