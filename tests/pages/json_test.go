package pages

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

var update = flag.Bool("update", false, "write docs/json.md from docs/json.schema.json")

// schemas returns the schemas in docs/json.schema.json, by the names of outputs.
func schemas(t *testing.T) *jsonschema.Schema {
	t.Helper()
	project, _ := read(t)
	content, err := os.ReadFile(filepath.Join(project, "docs/json.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all jsonschema.Schema
	if err := json.Unmarshal(content, &all); err != nil {
		t.Fatal(err)
	}
	return &all
}

// conform checks an output against the schema of that name.
func conform(t *testing.T, all *jsonschema.Schema, name string, output []byte) {
	t.Helper()
	schema := &jsonschema.Schema{Schema: all.Schema, Defs: all.Defs, Ref: "#/$defs/" + name}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(output, &value); err != nil {
		t.Errorf("%s: %v\n%s", name, err, output)
	} else if err := resolved.Validate(value); err != nil {
		t.Errorf("%s: %v\n%.3000s", name, err, output)
	}
}

// TestJSON validates every JSON output of offload: docs/json.schema.json has all fields.
func TestJSON(t *testing.T) {
	project, _ := read(t)
	all := schemas(t)
	dir := t.TempDir()
	libraries(t, project, dir)
	objects(t, project, dir)
	offload := func(args ...string) []byte {
		t.Helper()
		cmd := exec.Command(llvm.Offload(t), args...)
		cmd.Dir = dir
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil && out.Len() == 0 {
			t.Fatalf("%q: %v\n%s", args, err, errs.String())
		}
		return out.Bytes()
	}
	for name, content := range map[string]string{
		"accepted.txt":        "occupancy gfx90a _Z4gemmPKfS0_Pfi -2\nlds gfx90a stale +1\n",
		"new.gfx90a.opt.yaml": "--- !Missed\nPass: regalloc\nName: Spills\nDebugLoc: { File: a.hip, Line: 7, Column: 0 }\nFunction: _Z4gemmPKfS0_Pfi\nArgs:\n  - String: spills\n...\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	offload("bundle", "--output=plain.hipfb", "--entry=host-x86_64-unknown-linux-gnu=", "--entry=gfx90a=gfx90a.co", "--entry=gfx942=gfx942.co")
	offload("bundle", "--compress", "--output=small.hipfb", "--entry=host-x86_64-unknown-linux-gnu=", "--entry=gfx90a=gfx90a.co")
	offload("archive", "--output=both.a", "plain.hipfb", "small.hipfb")
	offload("pack", "--output=packed.ofb", "--image=file=gfx90a.co,triple=amdgcn-amd-amdhsa,arch=gfx90a,kind=openmp,key=value")
	lines := exec.Command(llvm.Tool(t, "clang++"), "-x", "hip", "-nogpuinc", "-nogpulib", "-I"+filepath.Join(project, "examples/hip_kernels/runtime"), "-gline-tables-only", "-fprofile-instr-generate", "-fcoverage-mapping",
		"--offload-device-only", "--no-gpu-bundle-output", "--offload-arch=gfx942", filepath.Join(project, "tests/pages/program/math.hip"), "-o", filepath.Join(dir, "lines.co"))
	if out, err := lines.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	object := exec.Command(llvm.Tool(t, "clang"), "-c", "-x", "c", "/dev/null", "-o", "host.o")
	object.Dir = dir
	if out, err := object.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	offload("embed", "--input=host.o", "--output=fat.o", "packed.ofb")
	checked := map[string]bool{}
	for _, c := range []struct{ name, command string }{
		{"list", "list --json plain.hipfb"},
		{"list", "list --json small.hipfb"},
		{"inspect", "inspect --json libmath.so"},
		{"inspect", "inspect --json both.a packed.ofb fat.o gfx942.co"},
		{"inspect_kernels", "inspect --kernels --json libmath.so"},
		{"inspect_kernels", "inspect --kernels --json both.a gfx942.co"},
		{"inspect_kernels", "inspect --kernels --sources --json lines.co"},
		{"inspect_sections", "inspect --sections --json lines.co"},
		{"inspect_sections", "inspect --sections --json both.a lines.co"},
		{"inspect_sources", "inspect --sources --json lines.co"},
		{"inspect_sources", "inspect --sources --json both.a lines.co"},
		{"inspect_summary", "inspect --summary --json libmath.so"},
		{"diff", "diff --json --fail-on=occupancy --max-growth=5% old/libmath.so new/libmath.so"},
		{"diff", "diff --json --fail-on=removed-archs plain.hipfb small.hipfb"},
		{"diff", "diff --json --fail-on=occupancy,vgprs --accepted=accepted.txt --tried=O2=old/libmath.so --new-remarks=new.gfx90a.opt.yaml old/libmath.so new/libmath.so"},
		{"report", "report --json=- plain.hipfb libmath.so lines.co"},
		{"report", "report --json=- --disassembler=" + llvm.Tool(t, "llvm-objdump") + " plain.hipfb lines.co"},
		{"report", "report --json=- --base=old/libmath.so new/libmath.so"},
		{"check_covers", "check --covers=gfx90a,gfx942 --json lib"},
		{"prune", "prune --json --input=libmath.so --output=one.so --keep=gfx90a"},
		{"prune", "prune --json --input=both.a --output=one.a --drop=gfx942"},
		{"prune_tree", "prune --json --keep=gfx90a --tree lib lib-gfx90a"},
		{"kpack_split", "kpack split --json --group=math --input=libmath.so --output=host.so --kpack-dir=packs"},
		{"kpack_split_tree", "kpack split --json --group=math --tree lib split"},
		{"check_covers", "check --covers=gfx90a,gfx942,gfx1201 --json split"},
		{"check_package", "check --package --covers=gfx90a,gfx1201 --json split"},
		{"kpack_list", "kpack list --json split/libmath.so split/.kpack/math_gfx90a.kpack"},
		{"wheel_split", "wheel split --json --output-dir dist math-1.0-py3-none-any.whl"},
		{"wheel_merge", "wheel merge --json --output-dir whole dist/math-1.0-py3-none-any.whl dist/math_device_gfx90a-1.0-py3-none-any.whl"},
		{"wheel_prune", "wheel prune --json --keep=gfx90a --output-dir small math-1.0-py3-none-any.whl dist/math_device_gfx1100-1.0-py3-none-any.whl"},
		{"link_plan", "link --plan --json fat.o"},
	} {
		conform(t, all, c.name, offload(strings.Fields(c.command)...))
		checked[c.name] = true
	}
	labels, err := os.ReadFile(filepath.Join(project, "examples/monorepo/device_code.expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	conform(t, all, "labels", labels)
	for name := range all.Defs {
		// TestTutorial covers the output of a rule; the others are parts of outputs.
		if !checked[name] && !slices.Contains([]string{"labels", "entries", "image", "image_sources", "kernel", "kpack_archive_file", "failure", "remark", "source", "wheel_file"}, name) {
			t.Errorf("no output for the schema %s", name)
		}
	}
}

// TestJSONVerbs checks that the schema covers each verb with a flag --json.
func TestJSONVerbs(t *testing.T) {
	all := schemas(t)
	titles := map[string]bool{}
	for _, s := range all.Defs {
		titles[s.Title] = true
	}
	found := 0
	for _, line := range strings.Split(helpOf(t, ""), "\n") {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "  "), "  ")
		if name == "" || !strings.HasPrefix(line, "  ") || !slices.Contains(flagsOf(t, name), "json") {
			continue
		}
		found++
		if !titles["offload "+name] && !titles["offload "+name+" --covers"] {
			t.Errorf("offload %s has a flag --json, and docs/json.schema.json no output of it", name)
		}
	}
	if found < 8 {
		t.Errorf("%d verbs with a flag --json, expected more", found)
	}
}

// order of the outputs on the page.
var order = []string{
	"list", "inspect", "inspect_kernels", "inspect_sources", "inspect_summary", "diff", "report", "check_covers", "check_package", "prune", "prune_tree", "kpack_list", "kpack_split",
	"kpack_split_tree", "wheel_split", "wheel_merge", "wheel_prune", "link_plan", "entries", "labels",
}

// TestJSONPage compares docs/json.md with the schema, or writes it with -update.
func TestJSONPage(t *testing.T) {
	project, _ := read(t)
	all := schemas(t)
	var page strings.Builder
	page.WriteString("<!-- Written from json.schema.json: go test ./tests/pages -run TestJSONPage -args -update -->\n# JSON\n\n" +
		"Verbs with `--json` print JSON on standard output; rules write JSON files. Sizes and offsets are in bytes. Names are those of the\n" +
		"files, also if they contain control characters. Releases may add fields, and do not remove or rename any. The\n" +
		"[JSON Schema](json.schema.json) has all fields; a test validates the outputs of every verb against it.\n")
	for _, name := range order {
		s := all.Defs[name]
		if s == nil {
			t.Fatalf("no schema %s", name)
		}
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n| field | type | meaning |\n| --- | --- | --- |\n", s.Title, s.Description)
		prefix := ""
		if s.Type == "array" {
			prefix, s = "[]", s.Items
		}
		rows(&page, all, s, prefix)
	}
	file := filepath.Join(project, "docs/json.md")
	if *update {
		if err := os.WriteFile(file, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(content) != page.String() {
		t.Error("docs/json.md differs from docs/json.schema.json: run go test ./tests/pages -run TestJSONPage -args -update")
	}
}

// rows writes a row for each field of an object. Objects that have a section of their own on the page are not repeated.
func rows(page *strings.Builder, all *jsonschema.Schema, s *jsonschema.Schema, prefix string) {
	s = deref(all, s)
	for _, one := range s.AnyOf {
		if one = deref(all, one); one.Type == "object" {
			rows(page, all, one, prefix)
		}
	}
	names := slices.Clone(s.Required)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		field := s.Properties[name]
		path := strings.TrimPrefix(prefix+"."+name, ".")
		optional := ""
		if !slices.Contains(s.Required, name) {
			optional = ", optional"
		}
		fmt.Fprintf(page, "| `%s` | %s%s | %s |\n", path, typeOf(all, field), optional, strings.ReplaceAll(field.Description, "|", `\|`))
		inner := field
		if field.Type == "array" {
			inner, path = field.Items, path+"[]"
		}
		if inner.Ref == "" || repeated[name] == inner.Ref {
			rows(page, all, inner, path)
		}
	}
}

// repeated are the fields that list the fields of their objects, which are in the schema once.
var repeated = map[string]string{
	"failures": "#/$defs/failure", "new_remarks": "#/$defs/remark", "archives": "#/$defs/kpack_archive_file",
	"host": "#/$defs/wheel_file", "devices": "#/$defs/wheel_file", "wheel": "#/$defs/wheel_file", "wheels": "#/$defs/wheel_file",
}

func deref(all, s *jsonschema.Schema) *jsonschema.Schema {
	if name, found := strings.CutPrefix(s.Ref, "#/$defs/"); found {
		return all.Defs[name]
	}
	return s
}

// typeOf returns the type of a field for readers.
func typeOf(all *jsonschema.Schema, s *jsonschema.Schema) string {
	s = deref(all, s)
	switch {
	case s.Type == "array":
		return "array of " + typeOf(all, s.Items)
	case s.Type != "":
		return s.Type
	case len(s.Types) > 0:
		return strings.Join(s.Types, " or ")
	case len(s.AnyOf) > 0:
		return "object or null"
	}
	return "string"
}
