package linkcache

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// fileState is the state of a file. If it is equal, the file is unchanged.
type fileState struct {
	name     string
	size     int64
	modified int64 // in nanoseconds
	number         // of the file, and its last change
}

// number identifies a file on a machine. Any change of the content, the times or the name of the file
// changes it: programs set the time of modification at will, but not changed. It is zero on systems that
// have no such times.
type number struct {
	device, inode uint64
	changed       int64 // in nanoseconds
}

// settled is the age of a change after which another change of the file has another time. Some file systems
// count seconds.
const settled = 2 * time.Second

func stateOf(name string) (fileState, error) {
	info, err := os.Stat(name)
	if err != nil {
		return fileState{}, err
	}
	if !info.Mode().IsRegular() {
		return fileState{}, fmt.Errorf("%s %w", name, errUnknown)
	}
	return stateOfInfo(name, info), nil
}

func stateOfInfo(name string, info fs.FileInfo) fileState {
	return fileState{name, info.Size(), info.ModTime().UnixNano(), numberOf(info)}
}

// settled reports whether a file that is changed after the time now gets another state.
func (s *fileState) settled(now time.Time) bool {
	return s.number != number{} && s.changed < now.Add(-settled).UnixNano()
}

// key returns the key of what is known of a file in this state, whatever its name.
func (s *fileState) key() Key {
	h := newHasher()
	h.text("digest of a file")
	var b []byte
	for _, n := range []uint64{s.device, s.inode, uint64(s.size), uint64(s.modified), uint64(s.changed)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	h.text(string(b))
	return h.key()
}
