package longzstd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func init() { prepare() } // tests call parts of the encoder

// readCounts reads a table description as a decoder does, see RFC 8878, section 4.1.1.
func readCounts(b []byte) (log int, norm []int16, size int) {
	pos := 0
	get := func(n int) int {
		v := 0
		for i := range n {
			if at := pos + i; at/8 < len(b) {
				v |= int(b[at/8]>>(at%8)&1) << i
			}
		}
		pos += n
		return v
	}
	log = get(4) + 5
	for left := 1 << log; left > 0; {
		most := left + 1
		width := 0
		for 1<<width <= most {
			width++
		}
		v := get(width)
		small := 1<<width - 1 - most
		if low := v & (1<<(width-1) - 1); low < small {
			v = low
			pos--
		} else if v >= 1<<(width-1) {
			v -= small
		}
		v--
		norm = append(norm, int16(v))
		if v < 0 {
			left--
		}
		left -= max(v, 0)
		if v == 0 {
			for {
				run := get(2)
				norm = append(norm, make([]int16, run)...)
				if run < 3 {
					break
				}
			}
		}
	}
	return log, norm, (pos + 7) / 8
}

// decodeStates returns the table of a decoder: the symbol, the bits to read and the base of each state.
func decodeStates(log int, norm []int16) (symbol []int, width []int, base []int) {
	size := 1 << log
	symbol, width, base = make([]int, size), make([]int, size), make([]int, size)
	next := make([]int, len(norm))
	high := size
	for s, n := range norm {
		next[s] = int(n)
		if n == -1 {
			high--
			symbol[high] = s
			next[s] = 1
		}
	}
	pos := 0
	for s, n := range norm {
		for range max(n, 0) {
			symbol[pos] = s
			for {
				pos = (pos + size/2 + size/8 + 3) & (size - 1)
				if pos < high {
					break
				}
			}
		}
	}
	for i := range size {
		n := next[symbol[i]]
		next[symbol[i]]++
		for n<<width[i] < size {
			width[i]++
		}
		base[i] = n<<width[i] - size
	}
	return symbol, width, base
}

// TestTables makes tables from random counts: a decoder can read each table, and every transition is the
// inverse of a transition of the decoder.
func TestTables(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.IntRange(0, 2).Draw(rt, "kind")
		top := rapid.IntRange(1, maxSymbols-1).Draw(rt, "top")
		skew := rapid.Float64Range(0, 6).Draw(rt, "skew")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		var count [maxSymbols]uint32
		total := uint32(0)
		for s := range top + 1 {
			if s == 0 || s == top || r.IntN(3) > 0 {
				count[s] = 1 + uint32(math.Pow(r.Float64(), skew)*3000)
				total += count[s]
			}
		}
		var table fseTable
		log := tableLogFor(total, top, tableLogLimit[kind])
		table.log, table.top = log, top
		table.normalize(count[:], top, total, log)
		desc := table.appendCounts(nil)
		gotLog, norm, size := readCounts(desc)
		if gotLog != int(log) || size != len(desc) || !slices.Equal(norm, table.norm[:top+1]) {
			rt.Fatalf("table that was read: got log %d, counts %v, %d bytes; want log %d, counts %v, %d bytes", gotLog, norm, size, log, table.norm[:top+1], len(desc))
		}
		table.build(log, top)
		checkTransitions(rt, &table)
	})
}

// checkTransitions compares every transition of a table with the table of a decoder.
func checkTransitions(t rapid.TB, table *fseTable) {
	t.Helper()
	symbol, width, base := decodeStates(int(table.log), table.norm[:table.top+1])
	size := 1 << table.log
	for s, n := range table.norm[:table.top+1] {
		if n == 0 {
			continue
		}
		if at := int(table.start(uint8(s))) - size; symbol[at] != s {
			t.Fatalf("first state of symbol %d: got a state of symbol %d, want one of symbol %d", s, symbol[at], s)
		}
		for state := range size {
			tr := table.trans[s]
			from := uint32(state + size)
			bits := (from + tr.deltaBits) >> 16
			to := int(table.next[(from>>bits+tr.deltaFind)%(1<<maxTableLog)]) - size
			if symbol[to] != s || width[to] != int(bits) || base[to]+state&(1<<bits-1) != state {
				t.Fatalf("symbol %d from state %d: got state %d with %d bits, want a state in which the decoder has this symbol, width and source; found symbol %d, %d bits from %d",
					s, state, to, bits, symbol[to], width[to], base[to])
			}
		}
	}
}

// TestPredefinedTables checks the sums and the transitions of the tables of RFC 8878, section 3.1.1.3.2.2.
func TestPredefinedTables(t *testing.T) {
	for kind, name := range []string{litLenTable: "literal lengths", offsetTable: "offsets", matchLenTable: "match lengths"} {
		t.Run(name, func(t *testing.T) {
			table := &predefined[kind]
			got := 0
			for _, n := range table.norm {
				got += max(int(n), -int(n))
			}
			if want := 1 << table.log; got != want {
				t.Errorf("sum of probabilities: got %d, want %d", got, want)
			}
			checkTransitions(t, table)
		})
	}
}

// TestDefaultLiteralLengthStates compares the first states of the default table of literal lengths with
// those in RFC 8878, appendix A.
func TestDefaultLiteralLengthStates(t *testing.T) {
	symbol, width, base := decodeStates(6, predefined[litLenTable].norm[:36])
	type state struct{ Symbol, Bits, Base int }
	var got []state
	for i := range 8 {
		got = append(got, state{symbol[i], width[i], base[i]})
	}
	want := []state{{0, 4, 0}, {0, 4, 16}, {1, 5, 32}, {3, 5, 0}, {4, 5, 0}, {6, 5, 0}, {7, 5, 0}, {9, 5, 0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

// TestLog2 compares the table of logarithms with those of package math.
func TestLog2(t *testing.T) {
	for n := 1; n < len(log2Table); n++ {
		got, want := float64(log2Fixed(n)), math.Log2(float64(n))*(1<<fixedShift)
		if math.Abs(got-want) > 1 {
			t.Errorf("log2(%d) in units of 1/%d: got %.0f, want %.2f", n, 1<<fixedShift, got, want)
		}
	}
}
