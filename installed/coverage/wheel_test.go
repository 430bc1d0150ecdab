package coverage

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/installed/wheel"
)

// TestCheckWheelMembers checks wheels that the other operations on wheels reject.
func TestCheckWheelMembers(t *testing.T) {
	const (
		info   = "a-1.dist-info/"
		file   = "a-1-py3-none-any.whl"
		unsafe = "expected a relative path with slashes, without . and .., of at most 4096 bytes"
	)
	type members map[string]string
	for name, test := range map[string]struct {
		change members
		want   []string
	}{
		"nothing":           {nil, []string{}},
		"file and folder":   {members{"b": "1", "b/c": "2", "b/d/e": "3"}, []string{file + "!b: record: it is a file and also the directory of \"b/c\""}},
		"newline":           {members{"a/x\ny": ""}, []string{file + `: record: member "a/x\ny": ` + unsafe}},
		"NUL":               {members{"a/x\x00y": ""}, []string{file + `: record: member "a/x\x00y": ` + unsafe}},
		"drive":             {members{`C:\x`: ""}, []string{file + `: record: member "C:\\x": ` + unsafe}},
		"empty METADATA":    {members{info + "METADATA": ""}, []string{file + "!" + info + "METADATA: record: found the name \"\", expected letters, digits, and - _ . between them"}},
		"another version":   {members{info + "METADATA": "Name: a\nVersion: 2\n"}, []string{file + "!" + info + "METADATA: record: found the version \"2\", expected that of the file: \"1\""}},
		"no METADATA text":  {members{info + "METADATA": "\xff"}, []string{file + "!" + info + "METADATA: record: expected UTF-8"}},
		"empty WHEEL":       {members{info + "WHEEL": ""}, []string{file + "!" + info + "WHEEL: record: found Wheel-Version \"\", expected 1.0"}},
		"of a vendored one": {members{"sub/a.dist-info/METADATA": ""}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			all := members{"a/x.py": "x", info + "METADATA": "Name: a\nVersion: 1\n", info + "WHEEL": "Wheel-Version: 1.0\n"}
			for member, text := range test.change {
				all[member] = text
			}
			rows := []wheel.Row{{Path: info + "RECORD", Size: -1}}
			for member, text := range all {
				rows = append(rows, wheel.Row{Path: member, Hash: wheel.Hash(sha256.Sum256([]byte(text))), Size: int64(len(text))})
			}
			all[info+"RECORD"] = string(wheel.FormatRecord(rows))
			dir := t.TempDir()
			putFile(t, filepath.Join(dir, file), zipOf(t, all))
			if diff := cmp.Diff(test.want, faults(t, dir, nil, filepath.Join(dir, file))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// zipOf returns a zip file with members in the order of their names.
func zipOf(t *testing.T, members map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		f, err := w.Create(name)
		ensure(t, err)
		_, err = f.Write([]byte(members[name]))
		ensure(t, err)
	}
	ensure(t, w.Close())
	return out.Bytes()
}
