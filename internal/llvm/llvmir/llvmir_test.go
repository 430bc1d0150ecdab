package llvmir

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/llvm/bitcode"
)

// loop returns a module with every kind of value and instruction. The result of
// content is part of its constant data.
func loop(image []byte) *Module {
	pair := Named("pair", I32, Ptr)
	data := &Global{Name: "data", Init: &Bytes{Content: content.Memory(image)}, Linkage: Internal, Constant: true, Section: ".data.image", Align: 4096, Unsanitized: true}
	data.Content = data.Init.Type()
	text := &Global{Name: "a \"name\"", Init: &Bytes{Content: content.Memory([]byte("text")), Terminated: true}, Linkage: Weak, UnnamedAddr: true}
	text.Content = text.Init.Type()
	bound := &Global{Name: "bound", Content: Array(0, pair), Hidden: true, Constant: true}
	table := &Global{Name: "table", Linkage: WeakODR, Init: Aggregate(pair, Int(I32, -7), AddressInbounds(I8, data, Int(I64, 2)))}
	table.Content = pair

	callee := &Function{Name: "callee", Signature: Func(I32, Ptr, I64)}
	f := &Function{Name: "function", Signature: Func(Void, Ptr), Section: ".text.startup", Params: []*Param{{T: Ptr}}}
	first, body, odd, done := &Block{Name: "entry"}, &Block{Name: "body"}, &Block{Name: "odd"}, &Block{Name: "done"}
	f.Blocks = []*Block{first, body, odd, done}
	first.Branch(first.NotEqual(f.Params[0], bound), body, done)
	at := body.Phi("at", Ptr)
	size := body.Load("size", I64, body.Element(pair, at, Int(I32, 0), Int(I32, 1)), 8)
	low := body.Trunc(size, I32)
	bit := body.ShiftRight("bit", body.And("", low, Int(I32, 8)), Int(I32, 3))
	next := body.Element(pair, at, Int(I64, 1))
	at.Add(f.Params[0], first)
	at.Add(next, body)
	at.Add(next, odd)
	body.Switch(bit, odd, []Value{Int(I32, 0), Int(I32, 1)}, []*Block{body, done})
	odd.Store(odd.Call(callee, at, size), table, 4)
	odd.Branch(odd.Equal(next, bound), done, body)
	done.Ret()
	return &Module{
		Source: "module", Triple: "x86_64-linux-gnu", Structs: []*Type{pair},
		Globals: []*Global{bound, data, text, table}, Functions: []*Function{callee, f},
		Lists: []List{{Name: "names", Values: []Value{text, data}}},
	}
}

func TestWriteText(t *testing.T) {
	var b bytes.Buffer
	if err := loop([]byte("\x00a\\\"")).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"%pair = type { i32, ptr }\n",
		"@bound = external hidden constant [0 x %pair]\n",
		"@data = internal constant [4 x i8] c\"\\00a\\\\\\22\", section \".data.image\", no_sanitize_address, no_sanitize_hwaddress, align 4096\n",
		"@\"a \\22name\\22\" = weak unnamed_addr global [5 x i8] c\"text\\00\"\n",
		"@table = weak_odr global %pair { i32 -7, ptr getelementptr inbounds (i8, ptr @data, i64 2) }\n",
		"declare i32 @callee(ptr, i64)\n",
		"define internal void @function(ptr %0) section \".text.startup\" {\nentry:\n  %1 = icmp ne ptr %0, @bound\n  br i1 %1, label %body, label %done\n",
		"body:                                             ; preds = %odd, %body, %entry\n  %at = phi ptr [ %0, %entry ], [ %5, %body ], [ %5, %odd ]\n",
		"  %2 = getelementptr inbounds %pair, ptr %at, i32 0, i32 1\n  %size = load i64, ptr %2, align 8\n  %3 = trunc i64 %size to i32\n  %4 = and i32 %3, 8\n  %bit = lshr i32 %4, 3\n",
		"  switch i32 %bit, label %odd [\n    i32 0, label %body\n    i32 1, label %done\n  ]\n",
		"  %6 = call i32 @callee(ptr %at, i64 %size)\n  store i32 %6, ptr @table, align 4\n",
		"\n!names = !{!0, !1}\n\n!0 = !{ptr @\"a \\22name\\22\"}\n!1 = !{ptr @data}\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got:\n%s\nwant a part:\n%s", b.String(), want)
		}
	}
}

// TestWriteBitcode reads bitcode with another package, for data of many lengths, which
// shift the following records bit by bit. Tests in tests/ compare modules with those of
// LLVM.
func TestWriteBitcode(t *testing.T) {
	want := []string{"a \"name\"", "table"} // without declarations, which are not symbols of an archive
	for size := range 200 {
		body := bytes.Repeat([]byte{0xa5}, size)
		var b bytes.Buffer
		if err := loop(body).WriteBitcode(&b); err != nil {
			t.Fatal(err)
		}
		names, err := bitcode.Symbols(b.Bytes())
		slices.Sort(names)
		if err != nil || !slices.Equal(names, want) {
			t.Fatalf("%d bytes: got symbols %q and error %v, want %q", size, names, err, want)
		}
		checkBlocks(t, b.Bytes())
		if !hasBits(b.Bytes(), body) {
			t.Fatalf("%d bytes: got bitcode without the data", size)
		}
	}
}

// checkBlocks checks that the outermost blocks fill the file.
func checkBlocks(t *testing.T, data []byte) {
	t.Helper()
	for at := 4; at < len(data); {
		if at+8 > len(data) || data[at]&3 != enterBlock {
			t.Fatalf("byte %d of %d: got no block, want one", at, len(data))
		}
		if at += 8 + int(binary.LittleEndian.Uint32(data[at+4:]))*4; at > len(data) {
			t.Fatalf("got a block that ends at byte %d, want at most %d", at, len(data))
		}
	}
}

// hasBits reports whether data has content, at any bit.
func hasBits(data, body []byte) bool {
	for range 8 {
		if bytes.Contains(data, body) {
			return true
		}
		shifted := make([]byte, len(data))
		for i := range data {
			shifted[i] = data[i] >> 1
			if i+1 < len(data) {
				shifted[i] |= data[i+1] << 7
			}
		}
		data = shifted
	}
	return false
}

// TestLargeData writes data that is larger than the buffer.
func TestLargeData(t *testing.T) {
	body := make([]byte, 3*bufferSize+5)
	for i := range body {
		body[i] = byte(i * i >> 3)
	}
	var b bytes.Buffer
	if err := loop(body).WriteBitcode(&b); err != nil {
		t.Fatal(err)
	}
	checkBlocks(t, b.Bytes())
	if !hasBits(b.Bytes(), body) {
		t.Error("got bitcode without the data")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, bytes.ErrTooLarge }

func TestWriteError(t *testing.T) {
	m := loop([]byte("x"))
	for name, write := range map[string]func(io.Writer) error{"bitcode": m.WriteBitcode, "text": m.WriteText} {
		t.Run(name, func(t *testing.T) {
			if err := write(full{}); !errors.Is(err, bytes.ErrTooLarge) {
				t.Errorf("got error %v, want %v", err, bytes.ErrTooLarge)
			}
		})
	}
}
