package linkcache

import (
	"io/fs"
	"syscall"
)

func numberOf(info fs.FileInfo) number {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return number{}
	}
	return number{uint64(st.Dev), st.Ino, st.Ctim.Nano()}
}
