package verb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/registration/runtimes"
	"github.com/rules-offload/rules_offload/internal/testing/testelf"
)

// mistakes are command lines of people, with the line that offload prints. The words are
// separated by spaces. A line without the name of a help page has exit code 1, others 2.
var mistakes = []struct{ args, want string }{
	// Verbs.
	{"lst", `offload: unknown verb "lst"; did you mean list? Try: offload help`},
	{"help unbundel", `offload: unknown verb "unbundel"; did you mean unbundle? Try: offload help`},
	{"unbundle-archiv x", `offload: unknown verb "unbundle-archiv"; did you mean unbundle-archive? Try: offload help`},
	{"frobnicate", `offload: unknown verb "frobnicate". Try: offload help`},
	{"kpack lst", `offload kpack: unknown verb "lst"; did you mean kpack list? Try: offload kpack --help`},
	{"kpack pack", `offload kpack: unknown verb "pack"; expected list, extract, verify, split or merge. Try: offload kpack --help`},
	{"help kpack lst", `offload kpack: unknown verb "lst"; did you mean kpack list? Try: offload kpack --help`},
	{"kpack-list x", `offload: unknown verb "kpack-list"; did you mean kpack list? Try: offload help`},
	{"help list me", "offload help: unexpected argument me. Try: offload help list"},
	{"version list", "offload: unexpected argument list. Try: offload --version"},
	{"verison", `offload: unknown verb "verison"; did you mean version? Try: offload help`},
	{"--json list x", "offload: --json: flags follow the verb: offload list --json x. Try: offload help"},
	{"--max-memory 1GB list x", "offload: --max-memory: flags follow the verb: offload list --max-memory 1GB x. Try: offload help"},
	{"--verison", "offload: unknown flag --verison; did you mean --version? Try: offload help"},
	{"-v", "offload: unknown flag -v; did you mean --version? Try: offload help"},
	{"--frobnicate", "offload: unknown flag --frobnicate; expected a verb before the flags. Try: offload help"},
	{"completion", "offload completion: expected one shell, bash, zsh or fish, found 0. Try: offload completion --help"},
	{"completion tcsh", `offload completion: found "tcsh", expected bash, zsh or fish. Try: offload completion --help`},

	{"ls bundle", `offload: unknown verb "ls"; did you mean list? Try: offload help`},
	{"verify bundle", `offload: unknown verb "verify"; did you mean check? Try: offload help`},
	{"strip so", `offload: unknown verb "strip"; did you mean prune? Try: offload help`},
	{"unpack bundle", `offload: unknown verb "unpack"; did you mean unbundle or extract? Try: offload help`},
	{"split so", `offload: unknown verb "split"; did you mean kpack split or wheel split? Try: offload help`},
	{"bundle.hipfb", `offload: unknown verb "bundle.hipfb"; to list the device code of this file, run offload inspect bundle.hipfb. Try: offload help`},
	{"roc-obj-ls bundle", `offload: unknown verb "roc-obj-ls"; for the command line of roc-obj-ls, make a symbolic link of that name to offload. Try: offload help`},

	// Flags.
	{"list --jsn x", "offload list: unknown flag --jsn; did you mean --json? Try: offload list --help"},
	{"list -jsno=1 x", "offload list: unknown flag --jsno; did you mean --json? Try: offload list --help"},
	{"list --frobnicate x", "offload list: unknown flag --frobnicate. Try: offload list --help"},
	{"list ---json x", "offload list: unknown flag ---json; did you mean --json? Try: offload list --help"},
	{"list --max-size", "offload list: --max-size: a value is missing, expected SIZE. Try: offload list --help"},
	{"bundle --output --compress", "offload bundle: --output: a value is missing, found the flag --compress; to pass that as the value, write --output=--compress. Try: offload bundle --help"},
	{"bundle --output=", "offload bundle: --output: found an empty value, expected FILE. Try: offload bundle --help"},
	{"bundle --output a --output b", "offload bundle: --output: given twice: a, b. Try: offload bundle --help"},
	{"list --json --json x", "offload list: --json: given twice. Try: offload list --help"},
	{"list --input x --input y", "offload list: --input: given twice: x, y. Try: offload list --help"},
	{"list --max-size=big x", `offload list: --max-size: found "big", expected a size such as 4096, 100MB or 1GiB. Try: offload list --help`},
	{"list --json=perhaps x", `offload list: --json: found "perhaps", but the flag takes no value. Try: offload list --help`},
	{"bundle --compress=zstd", `offload bundle: --compress: found "zstd", but --compress takes no value; it always uses zstd. Try: offload bundle --help`},
	{"bundle --compress --level 99", `offload bundle: --level: found "99", expected fast, small, or a level of LLVM from 1 to 22. Try: offload bundle --help`},
	{"bundle --compress --level -5", `offload bundle: --level: found "-5", expected fast, small, or a level of LLVM from 1 to 22. Try: offload bundle --help`},
	{"bundle --level 3 --output o --entry gfx90a=code", "offload bundle: --level requires --compress. Try: offload bundle --help"},
	{"prune --compression-level 3 f", "offload prune: unknown flag --compression-level; did you mean --level? Try: offload prune --help"},
	{"report --output r.html code", "offload report: unknown flag --output; did you mean --html? Try: offload report --help"},
	{"inspect --output o code", "offload inspect: unknown flag --output; the verb prints to standard output: add > FILE. Try: offload inspect --help"},
	{"prune --in-place --keep gfx90a so", "offload prune: unknown flag --in-place; did you mean --output? Try: offload prune --help"},
	{"kpack split --output-dir d so", "offload kpack split: unknown flag --output-dir; did you mean --output? Try: offload kpack split --help"},
	{"cc-data --name kernels bundle", "offload cc-data: unknown flag --name; did you mean --symbol? Try: offload cc-data --help"},
	{"register --input bundle", "offload register: unknown flag --input; files are arguments without a flag. Try: offload register --help"},
	{"prune --arch gfx90a so", "offload prune: unknown flag --arch; did you mean --keep? Try: offload prune --help"},
	{"register --output o bundle", "offload register: --kind is missing: add --kind " + alternatives(runtimes.Names()) + ". Try: offload register --help"},
	{"bundle --entry gfx90a=code", "offload bundle: --output is missing: add --output FILE. Try: offload bundle --help"},
	{"link so", "offload link: --triple is missing: add --triple TRIPLE, such as x86_64-unknown-linux-gnu. Try: offload link --help"},
	{"bundle --type objct", `offload bundle: --type: found "objct", expected i, ii, cui, hipi, d, ll, bc, s, o, a, gch or ast. Try: offload bundle --help`},
	{"bundle --kind hipv", `offload bundle: --kind: found "hipv", did you mean hip? Try: offload bundle --help`},
	{"bundle --align 0", `offload bundle: --align: found "0", expected 1 to 1GiB. Try: offload bundle --help`},
	{"bundle --frames al", `offload bundle: --frames: found "al", expected auto, entry or one. Try: offload bundle --help`},
	{"unbundle --bundle 0 b", `offload unbundle: --bundle: found "0", expected a number from 1 to 2147483647. Try: offload unbundle --help`},
	{"list --max-memory 1KiB x", `offload list: --max-memory: found "1KiB", expected at least 16MiB. Try: offload list --help`},
	{"diff --fail-on=spill a b", `offload diff: --fail-on: found "spill", did you mean spills? Try: offload diff --help`},
	{"diff --max-growth 5%% a b", `offload diff: --max-growth: found "5%%", expected a percentage such as 5%. Try: offload diff --help`},
	{"register --llvm-version 220 x", `offload register: --llvm-version: found "220", expected a number from 15 to 99. Try: offload register --help`},

	// Targets.
	{"bundle --entry gfx90=a.co", "offload bundle: --entry: gfx90 is not a known processor; did you mean gfx90a? (whole entry IDs are always accepted). Try: offload bundle --help"},
	{"bundle --entry gfx90A=a.co", "offload bundle: --entry: gfx90A is not a known processor; did you mean gfx90a? (whole entry IDs are always accepted). Try: offload bundle --help"},
	{"unbundle --entry gfx94:xnack+=a.co", "offload unbundle: --entry: gfx94 is not a known processor; did you mean gfx942? (whole entry IDs are always accepted). Try: offload unbundle --help"},
	{"bundle --entry zen4=a.co", `offload bundle: --entry: zen4 is not a known processor (whole entry IDs are always accepted). Try: offload bundle --help`},
	{"bundle --entry a.co=gfx942", "offload bundle: --entry: a.co=gfx942: the target precedes the file: write --entry gfx942=a.co. Try: offload bundle --help"},
	{"bundle --entry MI300X=a.co", "offload bundle: --entry: MI300X is a group: use gfx942. Try: offload bundle --help"},
	{"bundle --entry mi300=a.co", "offload bundle: --entry: mi300 is a group: use gfx942. Try: offload bundle --help"},
	{"bundle --entry native=a.co", "offload bundle: --entry: native is a name for Bazel rules: use the processor of the GPU, such as gfx942. Try: offload bundle --help"},
	{"bundle --entry gfx942", `offload bundle: --entry: found "gfx942", expected TARGET=FILE, such as gfx942=kernels.co. Try: offload bundle --help`},
	{"unbundle --entry gfx942= bundle", "offload unbundle: --entry gfx942=: the output is missing, expected gfx942=FILE. Try: offload unbundle --help"},
	{"bundle --output o --entry gfx90a=a.co --entry gfx90a=b.co", "offload bundle: two --entry for gfx90a: a.co, b.co; remove one. Try: offload bundle --help"},
	{"bundle --output o --entry gfx803=a.co --entry fiji=b.co", "offload bundle: two --entry for gfx803 and fiji, which are the same target: a.co, b.co; remove one. Try: offload bundle --help"},
	{"unbundle --entry gfx90a=a.co --entry gfx90a=b.co b", "offload unbundle: two --entry for gfx90a: a.co, b.co; remove one. Try: offload unbundle --help"},
	{"bundle --output o --entry gfx1030:xnack+=a.co", `offload bundle: --entry: target ID "gfx1030:xnack+": gfx1030 has no features to set, so not "xnack+". Try: offload bundle --help`},
	{"bundle --output o --entry sm_70=a.co", `offload bundle: --entry: target "sm_70" does not have offload kind hipv4, which is for AMD GPUs. Try: offload bundle --help`},
	{"prune --keep gfx90 b", "offload prune: --keep: gfx90 is not a known processor; did you mean gfx90a? (whole entry IDs are always accepted). Try: offload prune --help"},
	{"prune --keep gfx90a,gfx90a b", "offload prune: --keep: gfx90a is named twice. Try: offload prune --help"},
	{"prune --drop , b", `offload prune: --drop: found ",", expected targets separated by commas. Try: offload prune --help`},
	{"kpack split --archs mi200 b", "offload kpack split: --archs: mi200 is a group: use gfx90a. Try: offload kpack split --help"},
	{"check --covers=mi300 b", "offload check: --covers: mi300 is a group: use gfx942. Try: offload check --help"},
	{"check --covers=rdna4 b", "offload check: --covers: rdna4 is a group: use gfx1200,gfx1201. Try: offload check --help"},
	{"check --covers=gfx90 b", "offload check: --covers: gfx90 is not a known processor; did you mean gfx90a? Try: offload check --help"},
	{"check --covers=gfx942,gfx942 b", "offload check: --covers: gfx942 is named twice. Try: offload check --help"},

	{"check --covers=gfx90a:xnack b", `offload check: --covers: "gfx90a:xnack": "xnack" does not end in "+" or "-". Try: offload check --help`},
	{"check --covers gfx90a;gfx942 b", `offload check: --covers: "gfx90a;gfx942" is not one target: separate targets with commas, or repeat the flag. Try: offload check --help`},
	{"check --covers=gfx90a, b", `offload check: --covers: found an empty name, expected a processor such as gfx90a or gfx1100. Try: offload check --help`},

	// Operands.
	{"list", "offload list: the input is missing: expected FILE or --input FILE. Try: offload list --help"},
	{"list  y", `offload list: an argument is empty: found "", expected a file. Try: offload list --help`},
	{"list x y", "offload list: expected one input, found 2: x, y. Try: offload list --help"},
	{"check --input x y", "offload check: expected one bundle, found 2: x, y; to report which GPUs have code, add --covers=GPU. Try: offload check --help"},
	{"bundle a.co", "offload bundle: unexpected argument a.co; write --entry TARGET=a.co. Try: offload bundle --help"},
	{"pack dev.o", "offload pack: unexpected argument dev.o; write --image file=dev.o,triple=TRIPLE,kind=KIND. Try: offload pack --help"},
	{"prune --keep gfx90a f.so", "offload prune: --output is missing: add --output NEW; f.so does not change. Try: offload prune --help"},
	{"unbundle --output o --targets gfx90a b", "offload unbundle: unknown flag --output; write --entry gfx90a=o. Try: offload unbundle --help"},
	{"unbundle --targets=gfx90a --outputs=o b", "offload unbundle: unknown flag --targets; write --entry gfx90a=o. Try: offload unbundle --help"},
	{"bundle -o out", "offload bundle: unknown flag -o; did you mean --output? Try: offload bundle --help"},
	{"report code", "offload report: the output is missing: expected --html, --markdown or --json. Try: offload report --help"},
	{"assemble --plan p --output o", "offload assemble: the parts are missing: expected at least one PART. Try: offload assemble --help"},

	// Properties of images.
	{"extract --image arch=gfx942,fil=o b", "offload extract: --image: unknown key fil; did you mean file? Try: offload extract --help"},
	{"pack --output o --image file=a,triple=t,knd=hip", "offload pack: --image: unknown key knd; did you mean kind? Try: offload pack --help"},
	{"pack --output o --image file=a,triple=t,kind=hpi", `offload pack: --image: kind=: found "hpi", expected ` + alternatives(packedKinds()) + ". Try: offload pack --help"},
	{"pack --output o --image file=a,file=b", "offload pack: --image: file= is given twice. Try: offload pack --help"},
	{"pack --output o --image file=code", "offload pack: --image file=code: triple= is missing. Try: offload pack --help"},
	{"pack --output o --compress --image file=code,triple=t", "offload pack: --compress requires --format-version 3. Try: offload pack --help"},

	{"extract --image gfx942=o bundle", "offload extract: --image: unknown key gfx942; write arch=gfx942,file=o. Try: offload extract --help"},

	// Flags that exclude or require each other.
	{"prune --keep gfx90a --drop gfx906 --output o b", "offload prune: --keep cannot be combined with --drop. Try: offload prune --help"},
	{"prune --output o b", "offload prune: nothing to do: expected --keep, --drop, --replace, --compress or --decompress. Try: offload prune --help"},
	{"check --covers=gfx90a --linked b", "offload check: --linked cannot be combined with --covers. Try: offload check --help"},
	{"check --json b", "offload check: --json requires --covers or --package. Try: offload check --help"},
	{"inspect --mangled b", "offload inspect: --mangled requires --kernels. Try: offload inspect --help"},
	{"kpack extract b", "offload kpack extract: --output or --output-dir is missing. Try: offload kpack extract --help"},
	{"kpack extract --output o b", "offload kpack extract: --output is for one code object: expected --binary and --arch as well. Try: offload kpack extract --help"},

	// Files.
	{"list -- --json", "offload: --json: no such file or directory"},
	{"list \x1b[2J\u202e", `offload: \x1b[2J\u202e: no such file or directory`},
	{"list .", "offload: .: is a directory"},
	{"inspect lfs", "offload: lfs: Git LFS pointer, not the file itself; run git lfs pull"},
	{"report --html o notelf", "offload: notelf: no device code: found text"},
	{"diff notelf notelf", "offload: notelf, notelf: no device code"},
	{"diff --json notelf so", "offload: notelf, so: no device code"},
	{"report --html o --base lfs code", "offload: lfs: Git LFS pointer, not the file itself; run git lfs pull"},
	{"prune --keep gfx90a --output bundle bundle", "offload: output bundle is the input; choose another name"},
	{"report --html o --json o code", "offload: two outputs are the same file, o; give each its own name"},
	{"extract --output-dir nodir bundle", "offload: nodir/bundle-amdgcn-amd-amdhsa-gfx90a.0.o: directory nodir does not exist"},
	{"bundle --output nodir/b --entry gfx90a=code", "offload: nodir/b: directory nodir does not exist"},
	{"unbundle-archive --entry gfx90a=o bundle", "offload: bundle: not an archive: found a bundle; run offload unbundle"},
	{"check code", "offload: code: not a bundle: found a code object"},
	{"check notelf", "offload: notelf: not a bundle: found text"},
	{"embed --input notelf --output o code", "offload: notelf: found a file of an unknown format, expected an ELF or COFF object"},
	{"check --package notelf", "offload: notelf: found text, expected a package, a directory or a file with device code"},
	{"unbundle --entry gfx90a=o notelf", "offload: notelf: no bundle entries: found text"},
	{"unbundle --entry gfx90a=o gzip", "offload: gzip: no bundle entries: found a gzip file; decompress it first"},
	{"unbundle --entry gfx90a=o so", "offload: so: no bundle entries: found an ELF file; for device code in programs and libraries, run offload extract"},
	{"extract gzip", "offload: gzip: no device images: found a gzip file"},
	{"extract code", "offload: code: no device images: found a code object"},
	{"unbundle-archive --entry gfx90a=o notelf", "offload: notelf: not an archive: found text"},
	{"prune --keep gfx90a --output o code", "offload: code: no device code in the file: found a code object; to copy it, add --ignore-missing"},
	{"prune --keep gfx90a --output o empty", "offload: empty: no device code in the file: found an empty file; to copy it, add --ignore-missing"},
	{"check empty", "offload: empty: not a bundle: found an empty file"},
	{"isolate --output o notelf", "offload: notelf: found a file of an unknown format, expected a relocatable ELF object"},
	{"kpack list so", "offload: so: not a kpack archive, and its code was not split"},
}

// Mistakes cause one line that names the argument and what to type instead.
func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	mistakeFiles(t, dir)
	for _, test := range mistakes {
		t.Run(test.args, func(t *testing.T) {
			want := exitFailure
			if strings.Contains(test.want, " Try: offload ") {
				want = exitUsage
			}
			code, stdout, stderr := runIn(dir, strings.Split(test.args, " ")...)
			if code != want || stdout != "" || stderr != test.want+"\n" {
				t.Errorf("exit code %d, %q\n%s", code, stdout, cmp.Diff(test.want+"\n", stderr))
			}
		})
	}
}

// mistakeFiles writes the files that the mistakes name.
func mistakeFiles(t *testing.T, dir string) {
	for name, content := range map[string]string{
		"code":         string(testelf.CodeObject{ABI: 2, Flags: 0x3f}.Build()),
		"notelf":       "text\n",
		"empty":        "",
		"bundle.hipfb": "",
		"bundle":       string(plainBundle("hip-amdgcn-amd-amdhsa--gfx90a", "content")),
		"so":           string(testelf.Library{}.Build()),
		"gfx942":       string(testelf.CodeObject{ABI: 2, Flags: 0x4c}.Build()),
		"gzip":         "\x1f\x8b\x08",
		"lfs":          "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// Every verb that reads a file recognizes a Git LFS pointer.
func TestPointers(t *testing.T) {
	dir := t.TempDir()
	mistakeFiles(t, dir)
	for _, args := range []string{
		"bundle --output o --entry gfx90a=lfs", "unbundle --entry gfx90a=o lfs", "list lfs", "check lfs", "check --covers=gfx90a lfs",
		"check --entry gfx90a=lfs code", "archive --output o code lfs", "unbundle-archive --entry gfx90a=o lfs", "inspect lfs", "inspect --kernels code lfs",
		"report --html o code lfs", "diff code lfs", "diff lfs code", "extract lfs", "prune --keep gfx90a --output o lfs", "prune --replace gfx90a=lfs --output o code",
		"kpack list lfs", "kpack extract --output-dir . lfs", "kpack verify lfs", "kpack split --output o --kpack-dir k --group g lfs", "kpack merge --input lfs --output o code",
		"kpack merge --input code --output o lfs", "pack --output o --image file=lfs,triple=amdgcn-amd-amdhsa,kind=hip", "embed --input lfs --output o code",
		"cc-data --symbol s --triple x86_64-unknown-linux-gnu --output o lfs", "register --kind hip --triple x86_64-unknown-linux-gnu --output o lfs",
		"link --plan lfs", "isolate --output o lfs", "compress-part --output o lfs", "compress-plan --output o --entry gfx90a=lfs", "assemble --plan lfs --output o code",
		"check-device-deps lfs",
	} {
		t.Run(args, func(t *testing.T) {
			code, _, stderr := runIn(dir, strings.Fields(args)...)
			if code != exitFailure || !strings.HasSuffix(stderr, "lfs: Git LFS pointer, not the file itself; run git lfs pull\n") {
				t.Errorf("exit code %d, %s", code, stderr)
			}
		})
	}
}

// Mistakes that do not make a verb fail cause a warning.
func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	mistakeFiles(t, dir)
	for _, test := range []struct{ args, want string }{
		{"archive --output o notelf", "offload archive: warning: notelf: not a bundle or an object: found text\n"},
		{"archive --output o notelf gzip empty", "offload archive: warning: notelf: not a bundle or an object: found text\n" +
			"offload archive: warning: gzip: not a bundle or an object: found a gzip file\n" +
			"offload archive: warning: empty: not a bundle or an object: found an empty file\n"},
		{"report --json o code notelf", "offload report: warning: notelf: no device code: found text\n"},
		{"diff --json code notelf", "offload diff: warning: notelf: no device code: found text\n"},
		{"inspect --kernels code", "offload inspect: code: no kernels\n"},
		{"bundle --output o --entry gfx942=code", "offload bundle: warning: --entry gfx942=code: the file is code for gfx90a\n"},
		{"prune --replace gfx90a=gfx942 --output o bundle", "offload prune: warning: --replace gfx90a=gfx942: the file is code for gfx942\n"},
		{"list notelf", "offload list: notelf: no bundle entries: found text\n"},
		{"list gzip", "offload list: gzip: no bundle entries: found a gzip file; decompress it first\n"},
		{"list so", "offload list: so: no bundle entries: found an ELF file; for the device images of a program or library, run offload inspect so\n"},
		{"register --kind hip --triple x86_64-unknown-linux-gnu --output o notelf", "offload register: warning: notelf: found text, expected a bundle\n"},
		{"inspect so", "offload inspect: so: no device images: found an ELF file\n"},
		{"prune --replace gfx90a=notelf --output o bundle", "offload prune: warning: bundle: the replacement of gfx90a is not an AMDGPU code object\n"},
		{"pack --output o --image file=code,triple=amdgcn-amd-amdhsa,arch=gfx90,kind=hip", "offload pack: warning: --image: arch=gfx90: gfx90 is not a known processor; did you mean gfx90a?\n"},
	} {
		t.Run(test.args, func(t *testing.T) {
			code, stdout, stderr := runIn(dir, strings.Fields(test.args)...)
			if code != 0 || stdout != "" && !strings.HasPrefix(test.args, "diff") && !strings.HasPrefix(test.args, "prune") || stderr != test.want {
				t.Errorf("exit code %d, printed %q and %q", code, stdout, stderr)
			}
		})
	}
}

// Each error of a check is a line with the same beginning.
func TestLinePerError(t *testing.T) {
	dir := t.TempDir()
	mistakeFiles(t, dir)
	code, _, stderr := runIn(dir, "check", "--max-size", "10", "--device-code", "bundle")
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	if code != exitFailure || len(lines) < 2 {
		t.Errorf("exit code %d, %q", code, lines)
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "offload: bundle: ") {
			t.Errorf("line %q", line)
		}
	}
}

// The names of groups of verbs print their help.
func TestGroup(t *testing.T) {
	dir := t.TempDir()
	_, want, _ := runIn(dir, "kpack", "--help")
	for _, args := range [][]string{{"kpack"}, {"help", "kpack"}, {"kpack", "help"}} {
		if code, got, stderr := runIn(dir, args...); code != 0 || got != want || stderr != "" {
			t.Errorf("%q: exit code %d, %s\n%s", args, code, stderr, cmp.Diff(want, got))
		}
	}
	if !strings.Contains(want, "\n  verify ") {
		t.Error(want)
	}
}

// The levels fast and small stand for levels of LLVM, whose numbers are accepted, too.
func TestLevels(t *testing.T) {
	dir := t.TempDir()
	mistakeFiles(t, dir)
	read := func(level string) string {
		t.Helper()
		if code, _, stderr := runIn(dir, "bundle", "--compress", "--level", level, "--output", "b", "--entry", "gfx90a=code"); code != 0 {
			t.Fatal(stderr)
		}
		data, err := os.ReadFile(filepath.Join(dir, "b"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, list := range [][]string{{"fast", "1", "3", "6"}, {"small", "7", "9", "19", "22"}} {
		want := read(list[0])
		for _, level := range list[1:] {
			if read(level) != want {
				t.Errorf("--level %s differs from --level %s", level, list[0])
			}
		}
	}
}

// A directory of Tensile has code for a processor whose name begins with that of another.
func TestTensileNames(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"TensileLibrary_gfx1250-strict.dat": nil,
		"TensileLibrary_gfx1250-strict.co":  testelf.CodeObject{ABI: 4, Flags: 0xeb, Kernels: []testelf.Kernel{{Name: "k", CodeSize: 8}}}.Build(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for gpu, want := range map[string]int{"gfx1250-strict": exitOK, "gfx1250": exitFailure} {
		code, stdout, stderr := runIn(dir, "check", "--covers", gpu, ".")
		if code != want || !strings.Contains(stdout, gpu+" ") {
			t.Errorf("%s: exit code %d, %s%s", gpu, code, stdout, stderr)
		}
	}
}
