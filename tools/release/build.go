package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// platform is what the program runs on, in Go's names.
type platform struct{ os, arch string }

// platforms are what the program is released for.
var platforms = []platform{
	{"linux", "amd64"},
	{"linux", "arm64"},
}

// build writes the files of a release to dir, which must not exist or be empty.
func build(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if old, err := os.ReadDir(dir); err == nil && len(old) > 0 {
		return fmt.Errorf("%s: found %d files, expected an empty folder; name another one", dir, len(old))
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return buildFrom("HEAD", dir, platforms)
}

// buildFrom writes the files of a release of a commit, for some platforms, to dir.
func buildFrom(commit, dir string, platforms []platform) error {
	archive, err := output("git", "-C", "../..", "archive", "--format=tar", commit)
	if err != nil {
		return err
	}
	src, err := os.MkdirTemp("", "rules_offload-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(src)
	if err := unpack(archive, src); err != nil {
		return err
	}
	version, err := moduleVersion(src)
	if err != nil {
		return err
	}
	for _, p := range platforms {
		name := filepath.Join(dir, "offload-"+p.os+"-"+p.arch)
		if err := compile(src, name, p.os, p.arch); err != nil {
			return err
		}
		if err := writeSBOM(name, version); err != nil {
			return err
		}
	}
	if err := writeModule(src, commit, version, dir); err != nil {
		return err
	}
	return writeChecksums(dir)
}

// unpack writes the files of a tar archive below dir.
func unpack(archive []byte, dir string) error {
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(name, 0o777)
		case tar.TypeReg:
			var b []byte
			if b, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(name, b, fs.FileMode(h.Mode).Perm())
			}
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, name)
		}
		if err != nil {
			return err
		}
	}
}

var versionLine = regexp.MustCompile(`(?m)^    version = "([^"]+)"`)

// moduleVersion returns the version that MODULE.bazel states, or 0.0.0 before the
// first release.
func moduleVersion(src string) (string, error) {
	text, err := os.ReadFile(filepath.Join(src, "MODULE.bazel"))
	if err != nil {
		return "", err
	}
	head, _, _ := strings.Cut(string(text), "\n)")
	if m := versionLine.FindStringSubmatch(head); m != nil {
		return m[1], nil
	}
	return "0.0.0", nil
}

// compile builds the program so that its bytes depend on the sources and the Go
// release alone.
func compile(src, out, goos, goarch string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", out, "./cmd/offload")
	cmd.Dir = src
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build for %s/%s: %w\n%s", goos, goarch, err, text)
	}
	return nil
}

// writeModule writes the archive that a registry of Bazel modules points to.
func writeModule(src, commit, version, dir string) error {
	archive, err := output("git", "-C", "../..", "archive", "--format=tar", "--prefix=rules_offload-"+version+"/", commit)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(archive); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "rules_offload-v"+version+".tar.gz"), b.Bytes(), 0o666)
}

// writeChecksums writes SHA256SUMS, as sha256sum does, of all files in dir.
func writeChecksums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(b), e.Name()))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o666)
}

// output runs a command and returns what it prints.
func output(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	return out, nil
}
