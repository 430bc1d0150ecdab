package ccob

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// parts makes a part of each range of pieces that belong together. If pad is set, a
// part includes the zeros after it.
func parts(t testing.TB, pieces []content.Part, together func(a, b content.Part) bool, pad bool, o EncodeOptions) []*Part {
	t.Helper()
	var list []*Part
	pieces = slices.DeleteFunc(slices.Clone(pieces[1:]), func(p content.Part) bool { return p.Content.Len() == 0 })
	for len(pieces) > 0 {
		n := 1
		for n < len(pieces) && together(pieces[n-1], pieces[n]) {
			n++
		}
		size := int64(0)
		if pad && n < len(pieces) {
			size = pieces[n].Offset - pieces[0].Offset
		}
		list = append(list, part(t, pieces[:n], size, o))
		pieces = pieces[n:]
	}
	return list
}

func never(a, b content.Part) bool { return false }

func families(a, b content.Part) bool { return Family(a.ID) == Family(b.ID) }

func part(t testing.TB, pieces []content.Part, size int64, o EncodeOptions) *Part {
	t.Helper()
	pieces = slices.Clone(pieces)
	for i, first := 0, pieces[0].Offset; i < len(pieces); i++ {
		pieces[i].Offset -= first
	}
	var b content.Buffer
	o.Budget = cores
	if err := EncodePart(context.Background(), &b, pieces, size, o); err != nil {
		t.Fatal(err)
	}
	part, err := ParsePart(content.Memory(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return part
}

func plan(t testing.TB, pieces []content.Part, o EncodeOptions) *Plan {
	t.Helper()
	var b content.Buffer
	o.Budget = cores
	if err := EncodePlan(context.Background(), &b, pieces, o); err != nil {
		t.Fatal(err)
	}
	plan, err := ParsePlan(content.Memory(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func assemble(t testing.TB, plan *Plan, parts []*Part, o EncodeOptions) []byte {
	t.Helper()
	var b content.Buffer
	s, err := Assemble(context.Background(), &b, plan, parts, o)
	if err != nil {
		t.Fatal(err)
	}
	if s.FileSize != b.Len() {
		t.Errorf("%d bytes, stats say %d", b.Len(), s.FileSize)
	}
	r, err := Open(b.Bytes(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	spans, _, err := r.spans(r.RawSize())
	if len(spans) != s.Frames || err != nil || (r.index != nil) != s.Indexed || r.Header().Hash != s.Hash {
		t.Errorf("%d frames (%v), index %v, hash %x; stats say %+v", len(spans), err, (r.index != nil), r.Header().Hash, s)
	}
	return b.Bytes()
}

// In steps or at once: the bytes are the same, whatever the steps.
func TestAssembleIsEncode(t *testing.T) {
	aligns, sizes := []int64{1, 4096, 300_000}, []int{0, 20_000, 250_000}
	if testing.Short() {
		aligns, sizes[2] = aligns[:2], 100_000
	}
	for _, align := range aligns {
		for _, size := range sizes {
			pieces, raw := sample(align, size, processors...)
			for _, o := range []EncodeOptions{{}, {Frames: FramesEntry, Level: Small, Version: 2}, {Frames: FramesOne}} {
				want := encode(t, pieces, o)
				plan := plan(t, pieces, o)
				if got := assemble(t, plan, parts(t, pieces, never, true, o), o); !bytes.Equal(got, want) {
					t.Errorf("align %d, size %d, %+v: %d other bytes, want %d", align, size, o, len(got), len(want))
				}
				readAll(t, assemble(t, plan, parts(t, pieces, families, false, o), EncodeOptions{Budget: cores}), raw, Options{Budget: cores, Hash: HashFull})
			}
		}
	}
}

// Parts that are large enough for a frame are copied; small ones share a frame.
func TestAssembleLarge(t *testing.T) {
	pieces, raw := sample(4096, 9<<19, "gfx1010", "gfx1100", "gfx803", "gfx90a")
	want := encode(t, pieces, EncodeOptions{Budget: cores})
	plan := plan(t, pieces, EncodeOptions{})
	if len(plan.starts) != 4 {
		t.Fatalf("%d frames are planned", len(plan.starts))
	}
	for name, together := range map[string]func(a, b content.Part) bool{"families": families, "entries": never} {
		if got := assemble(t, plan, parts(t, pieces, together, true, EncodeOptions{}), EncodeOptions{Budget: cores}); !bytes.Equal(got, want) {
			t.Errorf("%s: %d other bytes, want %d", name, len(got), len(want))
		}
	}
	// A part is not cut by the plan.
	all := parts(t, pieces, func(a, b content.Part) bool { return true }, true, EncodeOptions{})
	data := assemble(t, plan, all, EncodeOptions{})
	readAll(t, data, raw, Options{Hash: HashFull})
	if !bytes.Contains(data, all[0].data.Mapped(guard.Inside)) {
		t.Error("the part was not copied")
	}
}

// Large families are divided into halves, in a part as in the whole bundle, and the halves are
// decoded one after another.
func TestHalves(t *testing.T) {
	defer func(half, many int64) { halfLeast, manyWindows = half, many }(halfLeast, manyWindows)
	halfLeast, manyWindows = 8<<20, 1
	pieces, raw := sample(4096, 9<<19, "gfx1010", "gfx803", "gfx900", "gfx906", "gfx908", "gfx90a")
	want := encode(t, pieces, EncodeOptions{})
	plan := plan(t, pieces, EncodeOptions{})
	if len(plan.starts) != 4 {
		t.Errorf("%d frames are planned", len(plan.starts))
	}
	got := assemble(t, plan, parts(t, pieces, families, true, EncodeOptions{}), EncodeOptions{Budget: cores})
	if !bytes.Equal(got, want) {
		t.Errorf("%d other bytes, want %d", len(got), len(want))
	}
	for _, n := range []int{1, 2, 4, 8} {
		readAll(t, got, raw, Options{Budget: budget.New(n, 1<<30)})
	}
}

func TestAssembleRefuses(t *testing.T) {
	ctx := context.Background()
	pieces, _ := sample(4096, 20_000, processors...)
	list, right := parts(t, pieces, never, false, EncodeOptions{}), plan(t, pieces, EncodeOptions{Frames: FramesEntry})
	assemble := func(plan *Plan, list []*Part, version int) error {
		_, err := Assemble(ctx, &content.Buffer{}, plan, list, EncodeOptions{Version: version})
		return err
	}
	with := func(i int, p *Part) []*Part {
		changed := slices.Clone(list)
		changed[i] = p
		return changed
	}
	last := len(list) - 1
	wide := *list[last]
	wide.RawSize += 1 << 20
	over := *list[last-1]
	over.RawSize += 1 << 20
	damaged, err := ParsePart(content.Memory(list[1].index.append(zeroFrame(nil, list[1].RawSize))))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"order":          {assemble(right, with(2, list[3]), 0), "part 3 of"},
		"missing":        {assemble(right, list[:last], 0), "of the plan are in no part"},
		"twice":          {assemble(right, append(slices.Clone(list), list[last]), 0), "the plan has only 0 left"},
		"other content":  {assemble(right, with(2, part(t, []content.Part{{Content: content.Memory(make([]byte, pieces[3].Content.Len()))}}, 0, EncodeOptions{})), 0), "the part belongs to another bundle"},
		"over the end":   {assemble(right, with(last, &wide), 0), "overlap adjacent parts"},
		"over the next":  {assemble(right, with(last-1, &over), 0), "overlap adjacent parts"},
		"version":        {assemble(right, list, 1), "version 1"},
		"no part":        {parsePart([]byte("x")), "not a part of"},
		"foreign part":   {parsePart((&index{raw: 5}).append(zeroFrame(nil, 4))), "its index states 5"},
		"garbage part":   {parsePart((&index{raw: 5}).append([]byte("garbage garbage garbage"))), "expected a zstd frame"},
		"no plan":        {parsePlan([]byte("x")), "not a plan of"},
		"other header":   {parsePlan((&index{raw: 5, pieces: []indexPiece{{0, 4, 1}}}).append([]byte("head"))), "differ from its index"},
		"plan of a part": {parsePlan((&index{raw: 5}).append(zeroFrame(nil, 4))), "differ from its index"},
		"no header":      {EncodePlan(ctx, &content.Buffer{}, nil, EncodeOptions{}), "needs its header"},
		"damaged":        {assemble(plan(t, pieces, EncodeOptions{}), with(1, damaged), 0), "the data is damaged"},
		"hashed twice":   {NewHasher().Add(ctx, pieces[0], pieces[0]), "are already hashed"},
	} {
		if tt.err == nil || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, tt.err, tt.want)
		}
	}
}

func parsePart(b []byte) error {
	_, err := ParsePart(content.Memory(b))
	return err
}

func parsePlan(b []byte) error {
	_, err := ParsePlan(content.Memory(b))
	return err
}

func TestHasherZeros(t *testing.T) {
	pieces := []content.Part{{Content: content.Memory([]byte("a"))}, {Offset: 20_000_000, Content: content.Memory([]byte("b"))}}
	raw := make([]byte, 20_000_001)
	raw[0], raw[len(raw)-1] = 'a', 'b'
	a, b := NewHasher(), NewHasher()
	if err := a.Add(context.Background(), pieces...); err != nil {
		t.Fatal(err)
	}
	b.Write(raw)
	if a.Sum() != b.Sum() || a.Size() != b.Size() {
		t.Error("zeros are not hashed as bytes")
	}
}

func TestEncodeRefuses(t *testing.T) {
	ctx := context.Background()
	one := content.Memory([]byte("abc"))
	for name, pieces := range map[string][]content.Part{
		"overlap":  {{Content: one}, {Offset: 2, Content: one}},
		"negative": {{Offset: -1, Content: one}},
		"overflow": {{Offset: math.MaxInt64 - 1, Content: one}},
	} {
		if _, err := Encode(ctx, &content.Buffer{}, pieces, EncodeOptions{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Encode(ctx, &content.Buffer{}, nil, EncodeOptions{Version: 1}); err == nil || !strings.Contains(err.Error(), "version 1") {
		t.Error(err)
	}
}

func TestVersion2Limits(t *testing.T) {
	const small, large = 1<<32 - 1, 1 << 32
	for _, test := range []struct {
		name string
		err  func() error
		want *LimitError
	}{
		{"content of 4 GiB", func() error { _, err := newStats(2, large); return err }, &LimitError{Size: large}},
		{"content below 4 GiB", func() error { _, err := newStats(2, small); return err }, nil},
		{"file above 4 GiB", func() error { _, err := (&Stats{Version: 2, DataSize: large}).header(); return err }, &LimitError{Size: large + 24, Compressed: true}},
		{"version 3", func() error { _, err := (&Stats{Version: 3, DataSize: large}).header(); return err }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got *LimitError
			if err := test.err(); errors.As(err, &got) != (test.want != nil) || got != nil && *got != *test.want {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error)  { return len(p), nil }
func (discard) Append(content.Content) error { return nil }
func (discard) Zeros(int64) error            { return nil }

func TestEmpty(t *testing.T) {
	var b content.Buffer
	if _, err := Encode(context.Background(), &b, nil, EncodeOptions{}); err != nil {
		t.Fatal(err)
	}
	readAll(t, b.Bytes(), nil, Options{})
	readAll(t, b.Bytes(), nil, Options{Hash: HashFull})
}

func TestZeroFrame(t *testing.T) {
	for _, n := range []int{0, 1, 4095, maxBlock, maxBlock + 1, 3*maxBlock + 5} {
		raw := make([]byte, n)
		readAll(t, container(3, Zstd, zeroFrame(nil, int64(n)), raw), raw, Options{})
	}
}

func TestWindowDescriptor(t *testing.T) {
	for n := int64(1); n <= maxWindow; n = n*9/8 + 1 {
		d := windowDescriptor(n)
		base := int64(1) << (10 + d>>3)
		if w := base + base/8*int64(d&7); w < n || w > max(n+n/8, 1<<10) {
			t.Errorf("window of %d for %d", w, n)
		}
	}
	if !bytes.Equal([]byte{windowDescriptor(maxWindow)}, []byte{(31 - 10) << 3}) {
		t.Error("2 GiB")
	}
}
