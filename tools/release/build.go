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

// platform is a platform of the program, in Go's names.
type platform struct{ os, arch string }

// platforms are the platforms of a release.
var platforms = []platform{
	{"linux", "amd64"},
	{"linux", "arm64"},
}

// programs are the directories of cmd with the programs of a release: the program, and the connection of its launcher
// with a remote cache.
var programs = []string{"offload", "offload-remote"}

// build writes the files of a release to dir, which must be empty or not exist.
func build(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if old, err := os.ReadDir(dir); err == nil && len(old) > 0 {
		return fmt.Errorf("%s: found %d files, expected an empty directory; name another one", dir, len(old))
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
		for _, program := range programs {
			name := filepath.Join(dir, program+"-"+p.os+"-"+p.arch)
			if err := compile(src, program, name, p.os, p.arch); err != nil {
				return err
			}
			if err := writeSBOM(name, version); err != nil {
				return err
			}
		}
	}
	lock, err := programLock(dir, version, platforms)
	if err != nil {
		return err
	}
	if err := writeModule(commit, version, lock, dir); err != nil {
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

// compile builds a program so that its bytes depend only on the sources and the Go release.
func compile(src, program, out, goos, goarch string) error {
	linker := "-s -w -buildid="
	if goos == "linux" && program == "offload" {
		linker += " -E offload_entry" // for amd64 and arm64, see cmd/offload/entry_linux.go
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags="+linker, "-o", out, "./cmd/"+program)
	cmd.Dir = src
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build of %s for %s/%s: %w\n%s", program, goos, goarch, err, text)
	}
	return nil
}

// lockFile has the checksums of the programs; it is empty in the repository.
const lockFile = "rules/private/release.bzl"

// cpus has the names of processors in @platforms.
var cpus = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// programLock returns the dictionary of lockFile for the programs in dir.
func programLock(dir, version string, platforms []platform) (string, error) {
	lock := "PROGRAMS = {\n"
	for _, p := range platforms {
		name := "offload-" + p.os + "-" + p.arch
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		lock += fmt.Sprintf("    %q: {\n        \"sha256\": \"%x\",\n        \"url\": %q,\n    },\n", p.os+"-"+cpus[p.arch], sha256.Sum256(content),
			"https://github.com/rules-offload/rules_offload/releases/download/v"+version+"/"+name)
	}
	return lock + "}\n", nil
}

// withLock returns a tar archive of the repository with lock as the contents of lockFile.
func withLock(archive []byte, lock string) ([]byte, error) {
	var out bytes.Buffer
	r, w := tar.NewReader(bytes.NewReader(archive)), tar.NewWriter(&out)
	replaced := false
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(h.Name, "/"+lockFile) {
			before, _, ok := strings.Cut(string(content), "PROGRAMS = {}\n")
			if !ok {
				return nil, fmt.Errorf("%s: found no empty PROGRAMS, expected the file of a checkout", h.Name)
			}
			content = []byte(before + lock)
			h.Size = int64(len(content))
			replaced = true
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	if !replaced {
		return nil, fmt.Errorf("the commit has no %s", lockFile)
	}
	err := w.Close()
	return out.Bytes(), err
}

// writeModule writes the archive for a registry of Bazel modules.
func writeModule(commit, version, lock, dir string) error {
	archive, err := output("git", "-C", "../..", "archive", "--format=tar", "--prefix=rules_offload-"+version+"/", commit)
	if err != nil {
		return err
	}
	if archive, err = withLock(archive, lock); err != nil {
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
