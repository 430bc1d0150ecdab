package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

// corpus describes the code objects of a library, unchanged or in other arrangements.
type corpus struct {
	name  string
	about string
	pkg   debianPackage
	pick  pick
	strip bool // remove debug sections, which Debian keeps, compressed
}

// pick selects bundles of a library.
type pick string

const (
	largest pick = "largest" // the largest one
	merged  pick = "merged"  // all of them, the entries of each target adjacent
	archive pick = "archive" // the 20 largest, as members of an archive
	members pick = "members" // all of them, ten times, as members of archives
)

// debianPackage is a package of Debian sid.
type debianPackage struct{ pool, sha256, file string }

const libDir = "usr/lib/x86_64-linux-gnu/"

var (
	rocfft  = debianPackage{"pool/main/r/rocfft/librocfft0_6.4.3-1+b1_amd64.deb", "7363041e8f560bdceede0eb0416f40dd002b223faed50b9cf8007e62f55d5576", libDir + "librocfft.so.0.1"}
	magma   = debianPackage{"pool/main/m/magma-rocm/libmagma-sparse2-rocm_2.9.0+ds-3_amd64.deb", "15f741264c07bf991362e63c6428206866d215560dd55b3cb8a8fc7fdfc96009", libDir + "libmagma_sparse.so.2.9"}
	rocrand = debianPackage{"pool/main/r/rocrand/librocrand1_6.4.3-1_amd64.deb", "94cd9fe750e99453154384affbe25f97021d0891a459fe665e5c36e9875384e8", libDir + "librocrand.so.1.1"}
	ggml    = debianPackage{"pool/main/g/ggml/libggml0-backend-hip_0.27.0-1_amd64.deb", "c8de64eef5de2b7b9faff94e8e7d21a75a1f3092d2377b6d211526b603c31b83", libDir + "ggml/backends0/libggml-hip.so"}
	rccl    = debianPackage{"pool/main/r/rccl/librccl1_5.4.3-3+b1_amd64.deb", "735e8e0a69f88489bdbd0a8b69bc75a376da92f1129b9ed80a38c99726bfe3a7", libDir + "librccl.so.1.0"}
)

var corpora = []corpus{
	{name: "rocfft", about: "the only bundle of librocfft0", pkg: rocfft, pick: largest},
	{name: "magma", about: "the largest bundle of libmagma-sparse2-rocm", pkg: magma, pick: largest},
	{name: "ggml-s", about: "the largest bundle of libggml0-backend-hip, without debug sections", pkg: ggml, pick: largest, strip: true},
	{name: "rocrand-s", about: "the largest bundle of librocrand1, without debug sections", pkg: rocrand, pick: largest, strip: true},
	{name: "rocrand", about: "the largest bundle of librocrand1", pkg: rocrand, pick: largest},
	{name: "ggml", about: "the largest bundle of libggml0-backend-hip", pkg: ggml, pick: largest},
	{name: "magma-all", about: "all of libmagma-sparse2-rocm in one bundle", pkg: magma, pick: merged},
	{name: "rccl-s", about: "the only bundle of librccl1, without debug sections", pkg: rccl, pick: largest, strip: true},
	{name: "rccl", about: "the only bundle of librccl1", pkg: rccl, pick: largest},
	{name: "ggml-all", about: "all of libggml0-backend-hip in one bundle", pkg: ggml, pick: merged},
	{name: "magma-members", about: "archives of the bundles of libmagma-sparse2-rocm, without debug sections, ten of each", pkg: magma, pick: members, strip: true},
	{name: "ggml-archive", about: "an archive of the 20 largest bundles of libggml0-backend-hip", pkg: ggml, pick: archive},
}

// dir is the directory in which prepare writes the corpus.
func (c *corpus) dir(base string) string { return filepath.Join(base, "corpora", c.name) }

// Rough sizes of the plain bundles, to check the free space before a download.
var rough = map[string]int64{"ggml-all": 1253 << 20, "ggml-archive": 531 << 20, "rccl": 287 << 20, "rccl-s": 166 << 20}

// tooLarge returns why a corpus cannot be measured on this machine, or "": the inputs and outputs
// of both programs need disk space, and LLVM's tool needs memory.
func (c *corpus) tooLarge(base string) string {
	size := max(rough[c.name], 100<<20)
	var fs syscall.Statfs_t
	if err := syscall.Statfs(base, &fs); err == nil && int64(fs.Bavail)*fs.Bsize < 8*size+2<<30 {
		return fmt.Sprintf("%s has less than %d MB free", base, (8*size+2<<30)>>20)
	}
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(info)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "MemAvailable:" {
			if kb, err := strconv.ParseInt(f[1], 10, 64); err == nil && kb<<10 < 6*size {
				return fmt.Sprintf("%d MB of memory are available, LLVM's tool needs %d", kb>>10, 6*size>>20)
			}
		}
	}
	return ""
}

// prepare fetches the package and writes the corpus, unless it exists: a file "targets", and the
// entries e00, e01 … in order, a directory of entries for each member, or an archive.
func (c *corpus) prepare(ctx context.Context, base string) error {
	dir := c.dir(base)
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	library, err := c.pkg.fetch(ctx, base)
	if err != nil {
		return err
	}
	input, err := files.NewRoot("").Open(library)
	if err != nil {
		return err
	}
	defer input.Close()
	temp := dir + ".part"
	if err := errors.Join(os.RemoveAll(temp), os.MkdirAll(temp, 0o777)); err != nil {
		return err
	}
	bundles, err := bundlesOf(input.Mapped(guard.Inside))
	if err != nil {
		return err
	}
	switch c.pick {
	case archive:
		err = writeBundles(ctx, filepath.Join(temp, "archive.a"), input.Mapped(guard.Inside), bundles)
	case members:
		for i := range bundles {
			dir := filepath.Join(temp, memberName(i))
			if err = os.Mkdir(dir, 0o777); err == nil {
				err = c.writeEntries(ctx, dir, input.Mapped(guard.Inside), bundles[i:i+1])
			}
			if err != nil {
				return err
			}
		}
	default:
		err = c.writeEntries(ctx, temp, input.Mapped(guard.Inside), bundles)
	}
	if err != nil {
		return err
	}
	return os.Rename(temp, dir)
}

// bundlesOf returns the bundles in the .hip_fatbin section of a library, largest first.
func bundlesOf(library []byte) ([]*bundle.Bundle, error) {
	f, err := object.Parse(library)
	if err != nil {
		return nil, err
	}
	var list []*bundle.Bundle
	for i := range f.Sections {
		s := &f.Sections[i]
		if string(s.Name) != ".hip_fatbin" {
			continue
		}
		data, err := f.Data(i)
		if err != nil {
			return nil, err
		}
		for extent, err := range ccob.Walk(data, bundle.End) {
			if err != nil {
				return nil, err
			}
			b, err := bundle.ParseAt(library[:s.Offset+s.Size], int64(s.Offset)+extent.Offset)
			if err != nil {
				return nil, err
			}
			list = append(list, b)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("no bundle in .hip_fatbin")
	}
	slices.SortStableFunc(list, func(a, b *bundle.Bundle) int { return cmp.Compare(b.End-b.Start, a.End-a.Start) })
	return list, nil
}

// writeEntries writes the entries of one bundle or of all bundles, and their targets.
func (c *corpus) writeEntries(ctx context.Context, dir string, library []byte, bundles []*bundle.Bundle) error {
	if c.pick == largest {
		bundles = bundles[:1]
	}
	var targets []string
	for i, entry := range bundles[0].Entries {
		targets = append(targets, entry.ID)
		file := filepath.Join(dir, entryName(i))
		f, err := os.Create(file)
		if err != nil {
			return err
		}
		for _, b := range bundles {
			for _, e := range b.Entries {
				if e.ID == entry.ID {
					_, werr := f.Write(e.Content(library))
					err = errors.Join(err, werr)
				}
			}
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		if c.strip && entry.Size > 0 {
			if out, err := exec.CommandContext(ctx, filepath.Join(llvm.Dir, "llvm-objcopy"), "--strip-debug", file).CombinedOutput(); err != nil {
				return fmt.Errorf("llvm-objcopy: %w: %s", err, sentence(out))
			}
		}
	}
	return os.WriteFile(filepath.Join(dir, "targets"), []byte(strings.Join(targets, "\n")), 0o666)
}

func entryName(i int) string  { return fmt.Sprintf("e%02d", i) }
func memberName(i int) string { return fmt.Sprintf("m%03d", i) }

// writeBundles writes the 20 largest bundles as members of an archive.
func writeBundles(ctx context.Context, name string, library []byte, bundles []*bundle.Bundle) error {
	var list []ar.NewMember
	for i, b := range bundles[:min(20, len(bundles))] {
		list = append(list, ar.NewMember{Name: fmt.Sprintf("tu%02d.o", i), Data: content.Memory(library[b.Start:b.End])})
	}
	return writeArchive(ctx, name, list)
}

// writeArchive writes an archive.
func writeArchive(ctx context.Context, name string, list []ar.NewMember) error {
	outputs := files.NewRoot("").Outputs()
	defer outputs.Abort()
	out, err := outputs.Create(name)
	if err != nil {
		return err
	}
	if err := ar.Write(ctx, out, list); err != nil {
		return err
	}
	return outputs.Commit()
}

// fetch returns the path of the library in the unpacked package.
func (p *debianPackage) fetch(ctx context.Context, base string) (string, error) {
	name := path.Base(p.pool)
	unpacked := filepath.Join(base, "packages", strings.TrimSuffix(name, ".deb"))
	library := filepath.Join(unpacked, p.file)
	if _, err := os.Stat(library); err == nil {
		return library, nil
	}
	deb := filepath.Join(base, "packages", name)
	if err := os.MkdirAll(filepath.Dir(deb), 0o777); err != nil {
		return "", err
	}
	if p.checked(deb) != nil {
		if err := p.download(ctx, deb); err != nil {
			return "", fmt.Errorf("%w. If the mirror has a newer release only, put %s into %s", err, name, filepath.Dir(deb))
		}
	}
	if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", deb, unpacked).CombinedOutput(); err != nil {
		return "", fmt.Errorf("dpkg-deb: %w: %s", err, sentence(out))
	}
	return library, nil
}

// checked compares a file with the sum of the package.
func (p *debianPackage) checked(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != p.sha256 {
		return fmt.Errorf("%s: SHA-256 is %s, expected %s", name, got, p.sha256)
	}
	return nil
}

// download gets the package from the mirror that apt uses.
func (p *debianPackage) download(ctx context.Context, deb string) error {
	mirror, err := mirror(ctx)
	if err != nil {
		return err
	}
	url := mirror + "/" + strings.ReplaceAll(p.pool, "+", "%2B")
	fmt.Printf("fetching %s\n", path.Base(p.pool))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	part := deb + ".part"
	f, err := os.Create(part)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, response.Body)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := p.checked(part); err != nil {
		return err
	}
	return os.Rename(part, deb)
}

// mirror returns the Debian mirror of apt's sources.
func mirror(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--no-release-info", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages").Output()
	if err != nil {
		return "", fmt.Errorf("apt-get indextargets: %w", err)
	}
	for line := range bytes.Lines(out) {
		uri, suite, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		if uri != "" && !strings.Contains(suite, "-") && !strings.Contains(uri, "debian-security") {
			return strings.TrimSuffix(uri, "/"), nil
		}
	}
	return "", errors.New("apt's sources do not name a Debian mirror")
}
