package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/tests/internal/chromium"
)

// windows are a phone, a tablet, a laptop and a large screen, in pixels.
var windows = [][2]int{{400, 800}, {820, 1180}, {1280, 720}, {2560, 1440}}

// The map fills its box at every size of the window, also after a change of the size and after
// zooming.
func TestMapFills(t *testing.T) {
	dir := t.TempDir()
	url, _ := report(t, dir, inputs(t, dir, 40)...)
	p := chromium.Start(t, 1000, 500)
	p.Open(url)
	for _, fragment := range []string{"", "#at=0.0.1"} {
		p.Open(url + fragment)
		for _, size := range windows {
			p.Resize(size[0], size[1])
			p.Settle()
			var filled struct{ Width, Height, Map, Parts float64 }
			p.Evaluate(`(() => {
				const map = document.getElementById('treemap'), box = map.getBoundingClientRect();
				let parts = 0, right = 0, bottom = 0;
				for (const e of map.children) {
					const r = e.getBoundingClientRect();
					parts += r.width * r.height;
					right = Math.max(right, r.right - box.left);
					bottom = Math.max(bottom, r.bottom - box.top);
				}
				return {width: right / box.width, height: bottom / box.height, map: box.width * box.height, parts};
			})()`, &filled)
			if filled.Width < 0.98 || filled.Height < 0.98 || filled.Parts < 0.97*filled.Map {
				t.Errorf("%v %q: the parts cover %.0f%% of the map, to %.0f%% of its width and %.0f%% of its height", size, fragment, 100*filled.Parts/filled.Map, 100*filled.Width, 100*filled.Height)
			}
		}
	}
	quiet(t, p, url)
}

// Kernels whose names differ at the end only can be told apart, in the table and in the map.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	var names []string
	for _, reduction := range []string{"Sum", "Prod", "Min", "Max"} {
		name := "ncclKernel_AllReduce_RING_SIMPLE_" + reduction + "_int8_t"
		names = append(names, fmt.Sprintf("_Z%d%sP11ncclDevCommmP8ncclWork", len(name), name))
	}
	names = append(names, "_Z5scalePfi", "_Z5scalePdi")                                   // differ in their parameters only
	names = append(names, "_ZN3lib4sortILi256EffEEvPT0_", "_ZN3lib4sortILi256EfdEEvPT0_") // void lib::sort<256, float, double>(float*)
	url, _ := report(t, dir, kernelsNamed(t, dir, names)...)
	p := chromium.Start(t, 1280, 720)
	p.Open(url)
	p.Settle()
	var shown []struct {
		Text string
		Cut  bool
	}
	p.Evaluate(`[...document.querySelectorAll('#kernels td[data-field=demangled] bdi')].map(b => ({text: b.textContent, cut: b.scrollHeight > b.clientHeight + 2}))`, &shown)
	if len(shown) != len(names) {
		t.Fatalf("%d rows: %v", len(shown), shown)
	}
	seen := map[string]bool{}
	for _, s := range shown {
		if seen[s.Text] || s.Cut {
			t.Errorf("%q cannot be told from others, or does not fit", s.Text)
		}
		seen[s.Text] = true
		if strings.Contains(s.Text, "sort") {
			if s.Text != "sort<…, float>" && s.Text != "sort<…, double>" {
				t.Errorf("%q: expected the template argument that differs", s.Text)
			}
		} else if strings.HasPrefix(s.Text, "nccl") == strings.HasSuffix(s.Text, ")") {
			t.Errorf("%q: expected parameters where names are equal without them, and only there", s.Text)
		}
	}
	quiet(t, p, url)
}

// SGPR spills are apart from VGPR spills and scratch, and only the latter are red.
func TestSpills(t *testing.T) {
	dir := t.TempDir()
	url, _ := report(t, dir, spillingKernels(t, dir)...)
	p := chromium.Start(t, 1280, 720)
	p.Open(url)
	p.Settle()
	var red []string
	p.Evaluate(`[...document.querySelectorAll('#kernels td.low')].map(td => td.parentElement.dataset.name + ' ' + td.dataset.field).sort()`, &red)
	if got := strings.Join(red, ", "); got != "both vgpr_spills, scratch scratch, vector vgpr_spills" {
		t.Errorf("red: %s", got)
	}
	heads := "[...document.querySelectorAll('.figures li')].map(li => li.textContent + (li.querySelector('.low') ? ' red' : '')).join('; ')"
	var text string
	p.Evaluate(heads, &text)
	if !strings.Contains(text, "3kernels with VGPR spills or scratch red; 2kernels with SGPR spills;") {
		t.Errorf("heads: %s", text)
	}
	var legend string
	p.Evaluate(`(g => document.getElementById(g.getAttribute('aria-labelledby')).textContent)(document.querySelector('.legend'))`, &legend)
	if !strings.Contains(legend, "waves per SIMD") {
		t.Errorf("the title of the legend is %q", legend)
	}
	quiet(t, p, url)
}
