// Package report tests the pages of offload report in Chromium.
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/verb"
	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/internal/testing/testelf"
	"github.com/rules-offload/rules_offload/tests/internal/chromium"
)

func TestMain(m *testing.M) { llvm.Main(m, chromium.Program) }

// hostile are names that a page or a terminal could misinterpret.
var hostile = []string{
	"</script><script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "<!--<script>", "a'b\"c`d|e&amp;f", "\x1b[2J\x1b]0;owned\a", "new\nline\ttab",
	"\u202eright to left\u2066", "\u2028\u2029", "_Z" + strings.Repeat("template<int, ", 300), "größe 核",
}

// machs are the processors of the test's images, by their number in ELF flags.
var machs = []struct {
	arch string
	mach uint32
}{{"gfx906", 0x2f}, {"gfx90a", 0x3f}, {"gfx942", 0x4c}, {"gfx1030", 0x36}, {"gfx1100", 0x41}}

// inputs writes the files of a build, see build.
func inputs(t *testing.T, dir string, perArch int) []string { return build(t, dir, "", perArch, 0) }

// build writes a bundle with several architectures, with kernels for each, and a bare code object
// with hostile names. It returns their names, which begin with prefix. With change, some kernels
// use more registers.
func build(t *testing.T, dir, prefix string, perArch, change int) []string {
	t.Helper()
	bundle, bareName := prefix+"kernels.hipfb", prefix+"bare.co"
	args := []string{"bundle", "--type=bc", "--output=" + bundle, "--entry=host-x86_64-unknown-linux-gnu="}
	for a, m := range machs {
		object := testelf.CodeObject{ABI: 3, Flags: m.mach, Variables: map[string]string{"table": strings.Repeat("x", 5000)}}
		for i := range perArch {
			object.Kernels = append(object.Kernels, testelf.Kernel{
				Name: fmt.Sprintf("_Z%dkernel_%05dPKfPfi", 12, i), CodeSize: uint64(256 + 64*((i*37+a*11)%211)),
				Keys: map[string]any{
					".kernarg_segment_size": 280, ".kernarg_segment_align": 8, ".group_segment_fixed_size": i * 512 % 40000, ".private_segment_fixed_size": i % 7 / 5 * 128,
					".wavefront_size": 64 - 32*(a/3), ".sgpr_count": 10 + i%90, ".vgpr_count": 4 + i*13%250 + change*(i%3), ".sgpr_spill_count": 0, ".vgpr_spill_count": i%11/10*9 + change*(i%8/7), ".max_flat_workgroup_size": 256,
				},
				Rsrc1: uint32(i*13%250/8 + change*(i%5/4)),
			})
		}
		write(t, filepath.Join(dir, m.arch+".co"), object.Build())
		args = append(args, "--entry="+m.arch+"="+m.arch+".co")
	}
	run(t, dir, args...)
	bare := testelf.CodeObject{ABI: 3, Flags: 0x3f}
	for i, name := range hostile {
		bare.Kernels = append(bare.Kernels, testelf.Kernel{Name: name, CodeSize: uint64(100 + i), Keys: map[string]any{".wavefront_size": 64, ".sgpr_count": 8, ".vgpr_count": 8 + i}})
	}
	write(t, filepath.Join(dir, bareName), bare.Build())
	return []string{bundle, bareName}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
}

// run runs offload in a directory.
func run(t *testing.T, dir string, args ...string) {
	t.Helper()
	var out bytes.Buffer
	code := verb.Run(t.Context(), &command.Call{
		Name: "offload", Args: args, Stdout: &out, Stderr: &out,
		Session: engine.New(engine.Config{Dir: dir, Budget: budget.New(2, 256<<20)}),
	})
	if code != 0 {
		t.Fatalf("%q: exit code %d: %s", args, code, out.String())
	}
}

// result is the JSON report.
type result struct {
	Files []struct {
		File    string
		Size    int64
		Images  []struct{ Arch string }
		Kernels []map[string]any
	}
	Diff struct {
		Archs   []struct{ Arch, Change string }
		Kernels []struct {
			Arch, Name, Change string
			Deltas             map[string]int64
		}
	}
}

// kernels returns the kernels of all files.
func (r *result) kernels() []map[string]any {
	var all []map[string]any
	for _, f := range r.Files {
		all = append(all, f.Kernels...)
	}
	return all
}

// report makes a report and returns the address of its page, and its JSON.
func report(t *testing.T, dir string, names ...string) (string, *result) {
	t.Helper()
	run(t, dir, append([]string{"report", "--html=r.html", "--json=r.json", "--markdown=r.md"}, names...)...)
	var r result
	text, err := os.ReadFile(filepath.Join(dir, "r.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return "file://" + filepath.Join(dir, "r.html"), &r
}

// row is a row of the page's table.
type row struct {
	Arch, Name string
	Fields     map[string]string
}

// tableRows returns the rows of the table of kernels that are in the document.
func tableRows(p *chromium.Page) []row {
	var all []row
	p.Evaluate(`[...document.querySelectorAll('#kernels tr[data-name]')].map(tr => ({arch: tr.dataset.arch, name: tr.dataset.name,
		fields: Object.fromEntries([...tr.querySelectorAll('td[data-field]')].map(td => [td.dataset.field, td.textContent]))}))`, &all)
	return all
}

// text returns the text of an element.
func text(p *chromium.Page, id string) string {
	var s string
	p.Evaluate(`document.getElementById('`+id+`').textContent`, &s)
	return s
}

// number formats a value of the JSON as the page does.
func number(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return fmt.Sprint(int64(v))
	case map[string]any: // occupancy
		return number(v["waves_per_simd"])
	}
	return fmt.Sprint(v)
}

var fields = []string{"code_size", "vgprs", "agprs", "sgprs", "vgpr_spills", "sgpr_spills", "scratch", "lds", "max_workgroup_size", "occupancy"}

// The rows of the page are the kernels of the JSON, whatever their names are.
func TestRows(t *testing.T) {
	dir := t.TempDir()
	url, want := report(t, dir, inputs(t, dir, 40)...)
	p := chromium.Start(t, 1280, 900)
	p.Open(url)
	key := func(r row) string { return r.Arch + "\x00" + r.Name + "\x00" + r.Fields["code_size"] }
	var expected []row
	for _, k := range want.kernels() {
		r := row{Arch: k["arch"].(string), Name: k["name"].(string), Fields: map[string]string{}}
		for _, field := range fields {
			r.Fields[field] = number(k[field])
		}
		expected = append(expected, r)
	}
	got := tableRows(p)
	for _, r := range got {
		for field := range r.Fields {
			if !slices.Contains(fields, field) {
				delete(r.Fields, field)
			}
		}
	}
	order := func(a, b row) int { return strings.Compare(key(a), key(b)) }
	slices.SortFunc(expected, order)
	slices.SortFunc(got, order)
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Errorf("rows (-JSON +page):\n%s", diff)
	}
	if n := len(machs)*40 + len(hostile); text(p, "count") != fmt.Sprintf("%d of %d kernels", n, n) {
		t.Errorf("count: %s", text(p, "count"))
	}
	quiet(t, p, url)
}

// quiet fails if the page printed or requested something.
func quiet(t *testing.T, p *chromium.Page, url string) {
	t.Helper()
	if console := p.Console(); len(console) > 0 {
		t.Errorf("console: %s", strings.Join(console, "\n"))
	}
	for _, address := range p.Requests() {
		if address != url && !strings.HasPrefix(address, "data:,") {
			t.Errorf("a request for %s", address)
		}
	}
	var dialogs int
	p.Evaluate(`document.querySelectorAll('script').length + document.querySelectorAll('img').length`, &dialogs)
	if dialogs != 2 {
		t.Errorf("%d scripts and images, want 2: a name was taken for markup", dialogs)
	}
}

// The fragment contains the state: search, order, and position in the map.
func TestFragment(t *testing.T) {
	dir := t.TempDir()
	url, want := report(t, dir, inputs(t, dir, 40)...)
	p := chromium.Start(t, 1280, 900)
	values := func(field string) []string {
		var all []string
		for _, r := range tableRows(p) {
			all = append(all, r.Fields[field])
		}
		return all
	}
	numbers := func(field string) []int64 {
		var all []int64
		for _, k := range want.kernels() {
			v, ok := k[field].(float64)
			if o, is := k[field].(map[string]any); is {
				v, ok = o["waves_per_simd"].(float64)
			}
			if ok {
				all = append(all, int64(v))
			}
		}
		return all
	}
	for _, field := range fields {
		for _, down := range []bool{false, true} {
			sign := ""
			if down {
				sign = "-"
			}
			t.Run("sort="+sign+field, func(t *testing.T) {
				p.Open(url + "#sort=" + sign + field)
				p.Settle()
				all := numbers(field)
				slices.Sort(all)
				if down {
					slices.Reverse(all)
				}
				var expected []string
				for _, n := range all {
					expected = append(expected, fmt.Sprint(n))
				}
				for len(expected) < len(want.kernels()) {
					expected = append(expected, "") // unknown values are last
				}
				if diff := cmp.Diff(expected, values(field)); diff != "" {
					t.Errorf("order (-want +got):\n%s", diff)
				}
			})
		}
	}
	for query, matches := range map[string]func(k map[string]any) bool{
		"KERNEL_00012":       func(k map[string]any) bool { return strings.Contains(k["name"].(string), "kernel_00012") },
		"gfx90A":             func(k map[string]any) bool { return k["arch"] == "gfx90a" },
		"</script>":          func(k map[string]any) bool { return strings.Contains(k["name"].(string), "</script>") },
		"größe":              func(k map[string]any) bool { return strings.Contains(k["name"].(string), "größe") },
		"nothing is so":      func(k map[string]any) bool { return false },
		"float const*, floa": func(k map[string]any) bool { return strings.Contains(k["demangled"].(string), "float const*, floa") },
	} {
		t.Run("q="+query, func(t *testing.T) {
			count := 0
			for _, k := range want.kernels() {
				if matches(k) {
					count++
				}
			}
			p.Open(url + "#q=" + strings.NewReplacer("<", "%3C", ">", "%3E", "/", "%2F", " ", "%20", "ö", "%C3%B6", "ß", "%C3%9F", "*", "%2A", ",", "%2C").Replace(query))
			p.Settle()
			if got := len(tableRows(p)); got != count {
				t.Errorf("%d rows, want %d", got, count)
			}
			if got, want := text(p, "count"), fmt.Sprintf("%d of %d kernels", count, len(want.kernels())); got != want {
				t.Errorf("count %q, want %q", got, want)
			}
			var typed string
			if p.Evaluate(`document.getElementById('q').value`, &typed); typed != query {
				t.Errorf("the field has %q", typed)
			}
		})
	}
	t.Run("typed", func(t *testing.T) {
		p.Open(url + "#sort=vgprs")
		p.Evaluate(`document.getElementById('q').focus()`, nil)
		p.Evaluate(`document.getElementById('q').select()`, nil)
		p.Type("gfx1100")
		p.Settle()
		var fragment string
		if p.Evaluate(`location.hash`, &fragment); fragment != "#q=gfx1100&sort=vgprs" {
			t.Errorf("fragment %q", fragment)
		}
		if got := len(tableRows(p)); got != 40 {
			t.Errorf("%d rows", got)
		}
	})
	quiet(t, p, url)
}

// A part is a part of the map.
type part struct {
	Kind, Arch, Label string
	Size              int64
	Parents           []string // kinds, the innermost first
}

func parts(p *chromium.Page) []part {
	var all []part
	p.Evaluate(`[...document.querySelectorAll('#treemap [data-kind]')].map(e => {
		const parents = [];
		for (let up = e.parentElement; up.dataset.kind; up = up.parentElement) parents.push(up.dataset.kind);
		return {kind: e.dataset.kind, arch: e.dataset.arch ?? '', label: e.getAttribute('aria-label'), size: Number(e.dataset.size), parents};
	})`, &all)
	return all
}

// The map has all files, bundles and architectures, with their sizes, and the largest
// kernels and all sections of each.
func TestMap(t *testing.T) {
	dir := t.TempDir()
	url, want := report(t, dir, inputs(t, dir, 40)...)
	p := chromium.Start(t, 1280, 900)
	p.Open(url)
	p.Settle()
	sizes := map[string]int64{}
	kernels := map[string]int{}
	kinds := map[string]int{}
	var ofFiles, ofArchs int64
	for _, part := range parts(p) {
		kinds[part.Kind]++
		switch part.Kind {
		case "arch":
			sizes[part.Arch] += part.Size
			ofArchs += part.Size
		case "file":
			ofFiles += part.Size
			for _, f := range want.Files {
				if strings.Contains(part.Label, f.File) && (part.Size <= 0 || part.Size > f.Size) {
					t.Errorf("%s has %d bytes of device code, want at most the size of the file, %d", f.File, part.Size, f.Size)
				}
			}
		case "kernel":
			kernels[part.Arch]++
			if !slices.Contains(part.Parents, "arch") || part.Label == "" || part.Arch == "" {
				t.Errorf("kernel %+v", part)
			}
		case "section":
			if part.Arch == "" || part.Size <= 0 {
				t.Errorf("section %+v", part)
			}
		}
	}
	if ofFiles != ofArchs {
		t.Errorf("the files have %d bytes of device code, their architectures %d", ofFiles, ofArchs)
	}
	if kinds["file"] != 2 || kinds["bundle"] != 2 || kinds["arch"] != len(machs)+1 {
		t.Errorf("parts: %v", kinds)
	}
	for _, m := range machs {
		size := int64(0)
		for _, name := range []string{m.arch + ".co", "bare.co"} {
			if name == "bare.co" && m.arch != "gfx90a" {
				continue
			}
			fi, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			size += fi.Size()
		}
		if sizes[m.arch] != size {
			t.Errorf("%s has %d bytes, want %d", m.arch, sizes[m.arch], size)
		}
		if kernels[m.arch] < 10 {
			t.Errorf("%s has %d kernels in the map", m.arch, kernels[m.arch])
		}
	}
	// No part extends beyond its parent or overlaps a sibling.
	var wrong []string
	p.Evaluate(`(() => {
		const wrong = [];
		for (const e of document.querySelectorAll('#treemap [data-kind]')) {
			if (e.hidden) continue;
			const a = e.getBoundingClientRect(), up = e.parentElement.getBoundingClientRect();
			if (a.left < up.left - 1 || a.top < up.top - 1 || a.right > up.right + 1 || a.bottom > up.bottom + 1) wrong.push('out: ' + e.getAttribute('aria-label'));
			for (const o of e.parentElement.children) {
				if (o === e || !o.dataset.kind || o.hidden) continue;
				const b = o.getBoundingClientRect();
				const w = Math.min(a.right, b.right) - Math.max(a.left, b.left), h = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
				if (w > 1.5 && h > 1.5) wrong.push('over: ' + e.getAttribute('aria-label') + ' ' + w + ' ' + h);
			}
		}
		return wrong.slice(0, 10);
	})()`, &wrong)
	if len(wrong) > 0 {
		t.Errorf("the map is wrong: %q", wrong)
	}
	t.Run("zoom", func(t *testing.T) {
		p.Evaluate(`document.querySelector('#treemap [data-kind=arch][data-arch=gfx942]').click()`, nil)
		p.Settle()
		var fragment string
		if p.Evaluate(`location.hash`, &fragment); !strings.HasPrefix(fragment, "#at=") {
			t.Errorf("fragment %q", fragment)
		}
		zoomed := parts(p)
		if len(zoomed) == 0 || zoomed[0].Kind != "arch" || zoomed[0].Arch != "gfx942" {
			t.Fatalf("parts %+v", zoomed)
		}
		if n := len(slices.DeleteFunc(zoomed, func(x part) bool { return x.Kind != "kernel" })); n != 40 {
			t.Errorf("%d kernels", n)
		}
		p.Open(url + fragment) // the same view in another browser
		p.Settle()
		if again := parts(p); len(again) == 0 || again[0].Arch != "gfx942" {
			t.Errorf("%s shows %+v", fragment, again[:min(1, len(again))])
		}
	})
	quiet(t, p, url)
}

// Every action of the mouse has a key.
func TestKeyboard(t *testing.T) {
	dir := t.TempDir()
	url, _ := report(t, dir, inputs(t, dir, 40)...)
	p := chromium.Start(t, 1280, 900)
	p.Open(url)
	p.Settle()
	// focused describes the focused element.
	focused := func() string {
		var s string
		p.Evaluate(`(e => [e.tagName.toLowerCase(), e.id, e.dataset.kind, e.closest('th')?.dataset.sort, e.dataset.name && 'row'].filter(s => s).join(' '))(document.activeElement)`, &s)
		return s
	}
	var visited []string
	for range 40 {
		p.Key("Tab")
		now := focused()
		visited = append(visited, now)
		if strings.HasPrefix(now, "tr") {
			break
		}
	}
	path := strings.Join(visited, "\n")
	for _, stop := range []string{"a", "div file", "input q", "button code_size", "tr row"} {
		if !slices.Contains(visited, stop) {
			t.Errorf("no way to %q by Tab:\n%s", stop, path)
		}
	}
	t.Run("rows", func(t *testing.T) {
		position := func() string {
			var s string
			p.Evaluate(`document.activeElement.getAttribute('aria-rowindex')`, &s)
			return s
		}
		for _, step := range []struct{ key, want string }{{"ArrowDown", "3"}, {"ArrowDown", "4"}, {"ArrowUp", "3"}, {"End", "211"}, {"Home", "2"}} {
			if p.Key(step.key); position() != step.want {
				t.Errorf("%s: row %s, want %s", step.key, position(), step.want)
			}
		}
		var name, shown string
		p.Evaluate(`document.activeElement.dataset.name`, &name)
		p.Key("Enter")
		p.Evaluate(`document.getElementById('detail').open ? document.getElementById('detail-figures').textContent : 'closed'`, &shown)
		if !strings.Contains(shown, name) {
			t.Errorf("details of %q: %q", name, shown)
		}
		p.Key("Escape")
		if p.Evaluate(`String(document.getElementById('detail').open)`, &shown); shown != "false" {
			t.Error("Escape does not close the details")
		}
	})
	t.Run("map", func(t *testing.T) {
		p.Evaluate(`document.querySelector('#treemap [tabindex="0"]').focus()`, nil)
		place := func() string {
			var fragment string
			p.Evaluate(`location.hash`, &fragment)
			return focused() + " " + fragment
		}
		for _, step := range []struct{ key, want string }{
			{"ArrowRight", "div bundle #"}, {"ArrowRight", "div arch #"}, {"ArrowDown", "div arch #"}, {"ArrowLeft", "div bundle #"}, {"ArrowRight", "div arch #"},
			{"Enter", "div arch #at=0.0.0"}, {"Escape", "div arch #at=0.0"}, {"Escape", "div arch #at=0"}, {"Escape", "div arch #"}, {"ArrowLeft", "div bundle #"},
		} {
			p.Key(step.key)
			p.Settle()
			if got := strings.TrimRight(place(), "# "); got != strings.TrimRight(step.want, "# ") {
				t.Errorf("%s: the focus and the fragment are %q, want %q", step.key, got, step.want)
			}
		}
	})
	t.Run("headings", func(t *testing.T) {
		p.Evaluate(`document.querySelector('[data-sort=lds] button').focus()`, nil)
		p.Key("Enter")
		p.Settle()
		var sort string
		p.Evaluate(`document.querySelector('[data-sort=lds]').getAttribute('aria-sort') + ' ' + location.hash`, &sort)
		if !strings.HasPrefix(sort, "descending #") || !strings.Contains(sort, "sort=-lds") {
			t.Errorf("order %q", sort)
		}
	})
	quiet(t, p, url)
}

// The page has the structure that screen readers need.
func TestAccessible(t *testing.T) {
	dir := t.TempDir()
	url, _ := report(t, dir, inputs(t, dir, 5)...)
	p := chromium.Start(t, 400, 800)
	for _, scheme := range []string{"light", "dark"} {
		p.Scheme(scheme)
		p.Open(url)
		p.Settle()
		var problems []string
		p.Evaluate(`(() => {
			const problems = [];
			const want = (ok, what) => { if (!ok) problems.push(what); };
			want(document.documentElement.lang === 'en', 'lang');
			want(document.title, 'title');
			want(document.querySelectorAll('main').length === 1, 'main');
			want(document.querySelector('meta[name=viewport]'), 'viewport');
			want(document.querySelector('noscript'), 'noscript');
			want(document.querySelectorAll('h1').length === 1, 'h1');
			for (const th of document.querySelectorAll('th')) want(th.scope === 'col', 'scope of ' + th.textContent);
			for (const input of document.querySelectorAll('input')) want(input.labels.length, 'label');
			for (const e of document.querySelectorAll('#treemap [data-kind]')) want(e.getAttribute('aria-label'), 'name of a part');
			want(document.documentElement.scrollWidth <= innerWidth, 'it is wider than the window: ' + document.documentElement.scrollWidth);
			// The contrast of texts with their background, by WCAG.
			const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
			const rgb = colour => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
			const light = ([r, g, b]) => [r, g, b].map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
			for (const e of document.querySelectorAll('body *')) {
				const text = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
				if (!text || !e.getClientRects().length || e.closest('script, style, noscript')) continue;
				let behind = e, back = [0, 0, 0, 0];
				while (behind && back[3] < 255) { back = rgb(getComputedStyle(behind).backgroundColor); behind = behind.parentElement; }
				const a = light(rgb(getComputedStyle(e).color)), b = light(back);
				const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
				if (ratio < 4.5) problems.push('contrast ' + ratio.toFixed(1) + ' of ' + e.tagName + ' ' + e.className + ' ' + e.textContent.slice(0, 30));
			}
			return [...new Set(problems)].slice(0, 20);
		})()`, &problems)
		if len(problems) > 0 {
			t.Errorf("%s: %q", scheme, problems)
		}
	}
	quiet(t, p, url)
}

// The page of a library with thousands of kernels is smaller than 3 MB, and the document contains
// some of the rows at a time.
func TestLarge(t *testing.T) {
	dir := t.TempDir()
	url, want := report(t, dir, inputs(t, dir, 816)...)
	fi, err := os.Stat(filepath.Join(dir, "r.html"))
	if err != nil {
		t.Fatal(err)
	}
	if fi.Size() >= 3<<20 {
		t.Errorf("the page has %d bytes", fi.Size())
	}
	p := chromium.Start(t, 1280, 900)
	p.Open(url)
	if got := text(p, "count"); got != "4,090 of 4,090 kernels" || len(want.kernels()) != 4090 {
		t.Errorf("%d kernels, count %q", len(want.kernels()), got)
	}
	if rows := tableRows(p); len(rows) == 0 || len(rows) > 1000 {
		t.Errorf("%d rows in the document", len(rows))
	}
	// Scrolling shows every kernel.
	seen := map[string]bool{}
	for range 200 {
		for _, r := range tableRows(p) {
			seen[r.Arch+"\x00"+r.Name] = true
		}
		var end bool
		p.Evaluate(`(() => { const rows = document.getElementById('rows'), before = rows.scrollTop; rows.scrollTop += 8000; return rows.scrollTop === before; })()`, &end)
		p.Settle()
		if end {
			break
		}
	}
	if len(seen) != 4090 {
		t.Errorf("%d of 4,090 kernels come past", len(seen))
	}
	var last string
	p.Evaluate(`document.querySelector('#kernels tbody tr:last-child').getAttribute('aria-rowindex')`, &last)
	if last != "4091" {
		t.Errorf("the last row is %s", last)
	}
	quiet(t, p, url)
}

// With a base, the page lists the changes, the worst first.
func TestDiff(t *testing.T) {
	dir := t.TempDir()
	old := build(t, dir, "old-", 60, 0)
	now := build(t, dir, "new-", 58, 2)
	url, want := report(t, dir, append([]string{"--base=" + old[0], "--base=" + old[1]}, now...)...)
	p := chromium.Start(t, 1200, 900)
	p.Open(url)
	type changed struct {
		Arch, Name, Change string
		Deltas             map[string]string
	}
	var got, expected []changed
	p.Evaluate(`(() => {
		const more = document.getElementById('diff-more');
		while (!more.hidden) more.click();
		return [...document.querySelectorAll('section#diff #diff-kernels tr[data-name]')].map(tr => ({arch: tr.dataset.arch, name: tr.dataset.name, change: tr.dataset.change,
			deltas: Object.fromEntries([...tr.querySelectorAll('td[data-field]')].filter(td => /^[+-]/.test(td.textContent)).map(td => [td.dataset.field, td.textContent]))}));
	})()`, &got)
	for _, k := range want.Diff.Kernels {
		deltas := map[string]string{}
		for name, d := range k.Deltas {
			deltas[name] = fmt.Sprintf("%+d", d)
		}
		expected = append(expected, changed{k.Arch, k.Name, k.Change, deltas})
	}
	if diff := cmp.Diff(expected, got); diff != "" || len(got) == 0 {
		t.Errorf("differences (-JSON +page):\n%s", diff)
	}
	var archs []struct{ Arch, Change string }
	p.Evaluate(`[...document.querySelectorAll('#diff-archs tr[data-arch]')].map(tr => ({arch: tr.dataset.arch, change: tr.dataset.change}))`, &archs)
	if diff := cmp.Diff(want.Diff.Archs, archs); diff != "" || len(archs) == 0 {
		t.Errorf("architectures (-JSON +page):\n%s", diff)
	}
	quiet(t, p, url)
}

// TestScreenshots takes the pictures of docs/howto: of a library in OFFLOAD_LIBRARY, written to the directory in
// OFFLOAD_SCREENSHOTS. Without them, it checks that a page is drawn. For rocRAND, whose kernels have all colors:
//
//	OFFLOAD_LIBRARY=ROCM/lib/librocrand.so.1 OFFLOAD_SCREENSHOTS=$PWD/docs/howto tools/offline/run go test ./tests/report -run TestScreenshots
func TestScreenshots(t *testing.T) {
	dir := t.TempDir()
	library := os.Getenv("OFFLOAD_LIBRARY")
	if library == "" {
		library = build(t, dir, "", 120, 2)[0]
	} else {
		content, err := os.ReadFile(library)
		if err != nil {
			t.Fatal(err)
		}
		library = strings.TrimSuffix(filepath.Base(library), ".1")
		write(t, filepath.Join(dir, library), content)
	}
	url, _ := report(t, dir, library)
	p := chromium.Start(t, 1200, 800)
	for _, shot := range []struct {
		name, scheme, fragment, above string
	}{
		{"report_light", "light", "", "h1"}, {"report_dark", "dark", "#sort=-vgprs&q=gfx90a", "#kernels-title"},
	} {
		p.Resize(1200, 760)
		p.Scheme(shot.scheme)
		p.Open(url + shot.fragment)
		p.Settle()
		p.Evaluate(`scrollBy(0, document.querySelector('`+shot.above+`').getBoundingClientRect().top - 24)`, nil)
		p.Settle()
		png := p.Screenshot()
		if len(png) < 10_000 || len(png) > 200_000 {
			t.Errorf("%s: a picture of %d bytes, expected 10 to 200 kB", shot.name, len(png))
		}
		if out := os.Getenv("OFFLOAD_SCREENSHOTS"); out != "" {
			write(t, filepath.Join(out, shot.name+".png"), png)
		}
	}
	quiet(t, p, url)
}

// kernelsNamed writes a code object with kernels of these names.
func kernelsNamed(t *testing.T, dir string, names []string) []string {
	t.Helper()
	object := testelf.CodeObject{ABI: 3, Flags: 0x3f}
	for i, name := range names {
		object.Kernels = append(object.Kernels, testelf.Kernel{Name: name, CodeSize: uint64(100 + i), Keys: map[string]any{".wavefront_size": 64, ".sgpr_count": 8, ".vgpr_count": 8}})
	}
	write(t, filepath.Join(dir, "names.co"), object.Build())
	return []string{"names.co"}
}

// spillingKernels writes a code object with kernels that spill registers of each kind.
func spillingKernels(t *testing.T, dir string) []string {
	t.Helper()
	object := testelf.CodeObject{ABI: 3, Flags: 0x3f}
	for name, figures := range map[string][3]int{"none": {}, "scalar": {5, 0, 0}, "vector": {0, 5, 0}, "both": {5, 5, 0}, "scratch": {0, 0, 64}} {
		object.Kernels = append(object.Kernels, testelf.Kernel{Name: name, CodeSize: 100, Keys: map[string]any{
			".wavefront_size": 64, ".sgpr_count": 8, ".vgpr_count": 8, ".sgpr_spill_count": figures[0], ".vgpr_spill_count": figures[1], ".private_segment_fixed_size": figures[2],
		}})
	}
	write(t, filepath.Join(dir, "spills.co"), object.Build())
	return []string{"spills.co"}
}
