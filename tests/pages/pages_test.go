package pages

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bazelbuild/buildtools/build"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/verb"
	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/internal/testing/root"
)

func TestMain(m *testing.M) { llvm.Main(m) }

// read returns the directory of the project and its pages.
func read(t *testing.T) (string, []*page) {
	t.Helper()
	project, err := root.Project()
	if err != nil {
		t.Fatal(err)
	}
	all, err := load(project)
	if err != nil {
		t.Fatal(err)
	}
	return project, all
}

func TestParse(t *testing.T) {
	p, err := parse("p.md", "# A `b` c!\n\n<!-- not run: why -->\n```sh\n# not a heading\nls\n```\n\n- x\n\n  ```starlark\n  # BUILD.bazel\n  a(\n      b)\n  ```\n\n# A b c\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.blocks) != 2 || p.blocks[0].excuse != "why" || p.blocks[0].text != "# not a heading\nls\n" {
		t.Errorf("blocks: %+v", p.blocks[0])
	}
	if b := p.blocks[1]; b.file != "BUILD.bazel" || b.text != "# BUILD.bazel\na(\n    b)\n" || b.line != 11 {
		t.Errorf("second block: %+v", b)
	}
	if !p.anchors["a-b-c"] || !p.anchors["a-b-c-1"] || len(p.anchors) != 2 {
		t.Errorf("anchors: %v", p.anchors)
	}
	if prose := strings.Join(p.prose(), "|"); strings.Contains(prose, "ls") || strings.Contains(prose, "BUILD") || !strings.Contains(prose, "- x") {
		t.Errorf("prose: %s", prose)
	}
	if _, err := parse("p.md", "```\n"); err == nil {
		t.Error("an open block is accepted")
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinks follows every link to a file or heading of the repository.
func TestLinks(t *testing.T) {
	project, all := read(t)
	byPath := map[string]*page{}
	for _, p := range all {
		byPath[p.path] = p
	}
	for _, p := range all {
		for i, line := range p.prose() {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				target, anchor, _ := strings.Cut(m[1], "#")
				if strings.Contains(target, ":") {
					continue
				}
				to := p.path
				if target != "" {
					to = filepath.ToSlash(filepath.Join(filepath.Dir(p.path), target))
				}
				if _, err := os.Stat(filepath.Join(project, to)); err != nil {
					t.Errorf("%s:%d: %s: no such file", p.path, i+1, m[1])
				} else if other := byPath[to]; anchor != "" && (other == nil || !other.anchors[anchor]) {
					t.Errorf("%s:%d: %s: no such heading", p.path, i+1, m[1])
				}
			}
		}
	}
}

// TestIndex checks that docs/README.md links to every page below docs.
func TestIndex(t *testing.T) {
	_, all := read(t)
	linked := map[string]bool{}
	for _, p := range all {
		if p.path != "docs/README.md" && p.path != "docs/rules.md" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(strings.Join(p.lines, "\n"), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			linked[filepath.ToSlash(filepath.Join(filepath.Dir(p.path), target))] = true
		}
	}
	for _, p := range all {
		if strings.HasPrefix(p.path, "docs/") && p.path != "docs/README.md" && !linked[p.path] {
			t.Errorf("docs/README.md does not link to %s", p.path)
		}
	}
}

// languages are the languages of blocks, and whether blocks of it run.
var languages = map[string]bool{
	"": false, "c": true, "console": true, "go": true, "json": true, "make": false, "sh": true, "starlark": true, "bazelrc": true, "yaml": false, "hip": true, "cpp": true, "text": false,
}

var commands = regexp.MustCompile(`(?m)^(\$ |(\./)?(bazelw?|offload|go|clang|\.\./\.\./bazelw) )`)

func TestLanguages(t *testing.T) {
	_, all := read(t)
	for _, p := range all {
		for _, b := range p.blocks {
			if _, known := languages[b.language]; !known {
				t.Errorf("%s: unknown language %q, expected one of those of the test", b, b.language)
			}
			if b.language == "" && commands.MatchString(b.text) {
				t.Errorf("%s: commands: write ```sh, or ```console with what they print", b)
			}
			if b.language == "c" && b.excuse == "" {
				t.Errorf("%s: a block of C does not run: expected a file name in its first line, or <!-- not run: REASON -->", b)
			}
		}
	}
}

var attribute = regexp.MustCompile("^(?:- |[|] )`([*]*\\w+)`")

// documented returns the attributes and parameters in the reference of the rules, by the heading above.
func documented(all []*page) map[string][]string {
	attributes := map[string][]string{}
	for _, p := range all {
		if !strings.HasPrefix(p.path, "docs/rules") {
			continue
		}
		heading := ""
		for _, line := range p.prose() {
			if strings.HasPrefix(line, "#") {
				_, heading, _ = strings.Cut(line, " ")
			} else if m := attribute.FindStringSubmatch(line); m != nil {
				attributes[heading] = append(attributes[heading], m[1])
			} else if shared, found := strings.CutPrefix(line, "Shared attributes: "); found {
				for _, m := range code.FindAllStringSubmatch(shared, -1) {
					attributes[heading] = append(attributes[heading], m[1])
				}
			}
		}
	}
	return attributes
}

// common are attributes of all rules.
var common = []string{"compatible_with", "name", "deprecation", "exec_compatible_with", "exec_properties", "features", "tags", "target_compatible_with", "testonly", "toolchains", "visibility"}

// TestStarlark parses every block of Starlark, and looks up rules and their attributes in the reference.
func TestStarlark(t *testing.T) {
	_, all := read(t)
	attributes := documented(all)
	if len(attributes["offload_bundle"]) < 5 {
		t.Fatalf("attributes of offload_bundle in the reference: %q", attributes["offload_bundle"])
	}
	for _, p := range all {
		for _, b := range p.blocks {
			if b.language != "starlark" || strings.Contains(b.excuse, "not a file") || signature(b) {
				continue
			}
			file, err := build.ParseDefault(b.String(), []byte(b.text))
			if err != nil {
				t.Errorf("%s: %v", b, err)
				continue
			}
			build.Walk(file, func(e build.Expr, _ []build.Expr) {
				if call, ok := e.(*build.CallExpr); ok {
					checkCall(t, b, call, attributes)
				}
			})
		}
	}
}

// signature reports whether a block of the reference lists the attributes of a rule instead of calling it.
func signature(b *block) bool {
	return strings.HasPrefix(b.page.path, "docs/rules") && regexp.MustCompile(`^[\w.]+\((name|\w+, |\w+\)|\*)[^=]*\)\n$`).MatchString(b.text)
}

func checkCall(t *testing.T, b *block, call *build.CallExpr, attributes map[string][]string) {
	name := build.FormatString(call.X)
	known := attributes[name]
	if len(known) == 0 || slices.Contains(known, "kwargs") || slices.Contains(known, "**kwargs") || strings.HasPrefix(name, "hip_binary") || strings.HasPrefix(name, "hip_test") {
		return
	}
	for _, argument := range call.List {
		set, ok := argument.(*build.AssignExpr)
		if !ok {
			continue
		}
		if key := build.FormatString(set.LHS); !slices.Contains(known, key) && !slices.Contains(common, key) {
			t.Errorf("%s: %s has no attribute %s, expected one of %s", b, name, key, strings.Join(known, ", "))
		}
	}
}

var (
	code    = regexp.MustCompile("`([^`]+)`")
	setting = regexp.MustCompile(`//rules/settings:(\w+)`)
	flagged = regexp.MustCompile(`(?:^|[\s|("'])--([a-z][a-z0-9-]*)`)
	invoked = regexp.MustCompile(`^(?:\$ )?offload ([a-z][a-z-]*(?: (?:list|extract|verify|split|merge|prune))?)`)
)

// TestSettings looks up the settings that the pages name.
func TestSettings(t *testing.T) {
	project, all := read(t)
	content, err := os.ReadFile(filepath.Join(project, "rules/settings/BUILD.bazel"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, p := range all {
		for i, line := range p.lines {
			for _, m := range setting.FindAllStringSubmatch(line, -1) {
				found++
				if m[1] != "NAME" && !bytes.Contains(content, []byte(`"`+m[1]+`"`)) {
					t.Errorf("%s:%d: //rules/settings:%s: no such setting", p.path, i+1, m[1])
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("%d settings on all pages, expected more", found)
	}
}

// helpOf returns the help of a verb, or of offload if the name is empty.
func helpOf(t *testing.T, name string) string {
	t.Helper()
	var out bytes.Buffer
	args := []string{"help"}
	if name != "" {
		args = append(args, strings.Fields(name)...)
	}
	call := &command.Call{Name: "offload", Args: args, Stdout: &out, Stderr: &out, Session: engine.New(engine.Config{})}
	if code := verb.Run(t.Context(), call); code != 0 {
		return ""
	}
	return out.String()
}

var helpFlag = regexp.MustCompile(`(?m)^  (?:-\w, )?--([a-z-]+)`)

// flagsOf returns the flags of a verb, or nil if there is no such verb.
func flagsOf(t *testing.T, name string) []string {
	help := helpOf(t, name)
	if help == "" {
		return nil
	}
	flags := []string{"help", "max-memory"}
	for _, m := range helpFlag.FindAllStringSubmatch(help, -1) {
		flags = append(flags, m[1])
	}
	return flags
}

// TestVerbs looks up the verbs and flags of each call of offload on the pages, in code of lines and of blocks.
func TestVerbs(t *testing.T) {
	_, all := read(t)
	calls := 0
	check := func(p *page, line int, command string) {
		m := invoked.FindStringSubmatch(command)
		if m == nil {
			return
		}
		calls++
		name := m[1]
		if name == "help" || name == "version" || name == "binary" || name == "binaries" || strings.HasPrefix(command, "offload --") {
			return
		}
		flags := flagsOf(t, name)
		if flags == nil {
			name, _, _ = strings.Cut(name, " ")
			flags = flagsOf(t, name)
		}
		if flags == nil {
			t.Errorf("%s:%d: offload %s: no such verb", p.path, line, name)
			return
		}
		ours, _, _ := strings.Cut(command, " -- ") // then the command line of clang
		for _, f := range flagged.FindAllStringSubmatch(ours, -1) {
			if !slices.Contains(flags, f[1]) {
				t.Errorf("%s:%d: offload %s has no flag --%s", p.path, line, name, f[1])
			}
		}
	}
	for _, p := range all {
		for i, line := range p.prose() {
			for _, m := range code.FindAllStringSubmatch(line, -1) {
				check(p, i+1, m[1])
			}
		}
		for _, b := range p.blocks {
			text := strings.ReplaceAll(b.text, "\\\n", " ")
			for i, line := range strings.Split(text, "\n") {
				check(p, b.line+1+i, line)
			}
		}
	}
	if calls < 50 {
		t.Errorf("%d calls of offload on all pages, expected more", calls)
	}
}

var testName = regexp.MustCompile(`\b(?:Test|Benchmark)[A-Z]\w*`)

// TestDifferences looks up the tests that the rows of docs/differences.md name in comments.
func TestDifferences(t *testing.T) {
	project, all := read(t)
	known := map[string]bool{}
	for _, dir := range []string{"cmd", "engine", "installed", "internal", "tests", "worker"} {
		err := filepath.WalkDir(filepath.Join(project, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w+)`).FindAllSubmatch(content, -1) {
				known[string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	rows := 0
	for _, p := range all {
		if p.path != "docs/differences.md" {
			continue
		}
		for i, line := range p.lines {
			_, comment, found := strings.Cut(line, "<!--")
			if !found || !strings.HasPrefix(line, "|") {
				continue
			}
			rows++
			names := testName.FindAllString(comment, -1)
			if len(names) == 0 {
				t.Errorf("%s:%d: the comment names no test", p.path, i+1)
			}
			for _, name := range names {
				if !known[name] {
					t.Errorf("%s:%d: %s: no such test", p.path, i+1, name)
				}
			}
		}
	}
	if rows < 80 {
		t.Errorf("%d rows with tests, expected more", rows)
	}
}

// layers are the rows of packages in docs/architecture.md. A package imports packages of its own row
// and of rows below it. Packages of internal/cmd that are not here are command lines, others formats
// and tasks. Packages of only tests are in no row.
var layers = []struct {
	title    string
	packages []string
}{
	{"the program", []string{"cmd/offload"}},
	{"command lines", []string{"internal/cmd/…", "worker"}},
	{"links, installations", []string{"internal/link", "installed/coverage", "installed/installation"}},
	{"operations", []string{"engine"}},
	{"device code in files", []string{"engine/images", "engine/kernels", "internal/prune", "internal/kpack", "internal/registration/register", "internal/registration/registerir", "internal/link/devicelink", "internal/link/linkcache"}},
	{"formats and tasks", []string{"engine/bundle", "engine/ccob", "engine/offloadbinary", "internal/ar", "internal/llvm/bitcode", "internal/elf/codeobject", "internal/elf/elfedit", "internal/elf/object", "internal/link/process", "installed/wheel", "installed/packages", "installed/rocmdata", "…"}},
	{"what all of them use", []string{"engine/budget", "engine/content", "engine/files", "engine/target", "internal/elf", "internal/embedding", "internal/storage/guard", "internal/storage/joined", "internal/compression/longzstd", "internal/compression/md5lanes", "internal/storage/pages", "internal/compression/xxh3"}},
}

// layerOf returns the index in layers of the row of a package.
func layerOf(path string) int {
	named := map[string]int{}
	for i, layer := range layers {
		for _, name := range layer.packages {
			named[name] = i
		}
	}
	if i, ok := named[path]; ok {
		return i
	}
	if strings.HasPrefix(path, "internal/cmd/") {
		return named["internal/cmd/…"]
	}
	return named["…"]
}

// drawnLayers draws the layers.
func drawnLayers() string {
	const (
		titles = 23 // characters
		width  = 110
	)
	var b strings.Builder
	for i, layer := range layers {
		if i > 0 {
			b.WriteString(strings.Repeat(" ", titles) + "▼\n")
		}
		line := fmt.Sprintf("%-*s", titles, layer.title)
		for j, name := range layer.packages {
			if utf8.RuneCountInString(line)+utf8.RuneCountInString(name)+3 > width {
				b.WriteString(strings.TrimRight(line, " ") + "\n")
				line = strings.Repeat(" ", titles)
			}
			line += name
			if j < len(layer.packages)-1 {
				line += " · "
			}
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// TestFigure compares the figure in docs/architecture.md with the layers.
func TestFigure(t *testing.T) {
	project, _ := read(t)
	page, err := os.ReadFile(filepath.Join(project, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "```text\n" + drawnLayers() + "```\n"; !strings.Contains(string(page), want) {
		t.Errorf("the figure in docs/architecture.md is not that of the layers in this test, want:\n%s", want)
	}
}

// TestPlaces checks that the files exist that CONTRIBUTING.md names for changes.
func TestPlaces(t *testing.T) {
	project, _ := read(t)
	content, err := os.ReadFile(filepath.Join(project, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(content), "| to change | edit |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	places := regexp.MustCompile("`((?:engine|installed|internal)/[^`]+)`").FindAllStringSubmatch(table, -1)
	if !found || len(places) < 10 {
		t.Fatalf("got %d places, want at least 10", len(places))
	}
	for _, m := range places {
		if _, err := os.Stat(filepath.Join(project, m[1])); err != nil {
			t.Error(err)
		}
	}
}

// notPublic are the packages of internal that those of installed import, because the engine has nothing public
// in their place. Nothing is added here: what is missing becomes public.
var notPublic = map[string][]string{
	"installed/coverage": {
		"internal/elf/elfedit", "internal/elf/object", "internal/embedding", "internal/kpack",
		"internal/registration/registered", "internal/storage/guard",
	},
	"installed/installation": {"internal/elf/codeobject", "internal/kpack", "internal/prune", "internal/storage/guard"},
	"installed/packages":     {"internal/ar", "internal/limits", "internal/storage/guard", "internal/storage/pages"},
	"installed/wheel":        {"internal/limits", "internal/storage/guard"},
}

// TestImports checks the rules for imports in docs/architecture.md.
func TestImports(t *testing.T) {
	project, _ := read(t)
	const module = "github.com/rules-offload/rules_offload/"
	imported := regexp.MustCompile(`"` + regexp.QuoteMeta(module) + `([^"]+)"`)
	opensFiles := []string{"engine", "installed/coverage", "engine/images", "installed/installation", "internal/link", "internal/link/linkcache"}
	used := make(map[string]bool) // of notPublic
	checked := 0
	for _, dir := range []string{"engine", "installed", "internal", "worker"} {
		err := filepath.WalkDir(filepath.Join(project, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(project, filepath.Dir(path))
			if err != nil {
				return err
			}
			from := filepath.ToSlash(rel)
			checked++
			forTests := strings.HasPrefix(from, "internal/testing/")
			for _, slow := range []struct{ path, instead string }{
				{"google.golang.org/protobuf", "decode messages without descriptors"},
				{"debug/", "use internal/elf, internal/elf/object and internal/elf/linetable"},
				{"regexp", "search with package strings"},
				{"net/url", "decode names in the package itself"},
				{"go.yaml.in/yaml", "see internal/elf/codeobject/yaml.go"},
				{"github.com/zeebo/xxh3", "use internal/compression/xxh3"},
			} {
				if strings.Contains(string(content), `"`+slow.path) && !forTests {
					t.Errorf("%s imports %s, which initialises tables at each start of a program: %s", from, slow.path, slow.instead)
				}
			}
			for _, m := range imported.FindAllSubmatch(content, -1) {
				to := string(m[1])
				used[from+" "+to] = true
				switch {
				case layerOf(to) < layerOf(from) && !forTests:
				case from == "worker":
				case !strings.HasPrefix(from, "internal/cmd") && to == "engine/files" && !slices.Contains(opensFiles, from):
				case strings.HasPrefix(from, "installed/") && strings.HasPrefix(to, "internal/") && !slices.Contains(notPublic[from], to):
				default:
					continue
				}
				t.Errorf("%s imports %s", from, to)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for from, list := range notPublic {
		for _, to := range list {
			if !used[from+" "+to] {
				t.Errorf("%s no longer imports %s: remove it from notPublic", from, to)
			}
		}
	}
	if checked < 100 {
		t.Errorf("%d files, expected more", checked)
	}
}
