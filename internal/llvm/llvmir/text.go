package llvmir

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// WriteText writes the module as text in the format of LLVM.
func (m *Module) WriteText(w io.Writer) error {
	p := &printer{w: bufio.NewWriterSize(w, 64<<10)}
	p.printf("; ModuleID = '%s'\nsource_filename = \"%[1]s\"\n", m.Source)
	if m.Layout != "" {
		p.printf("target datalayout = \"%s\"\n", m.Layout)
	}
	p.printf("target triple = \"%s\"\n\n", m.Triple)
	for _, t := range m.Structs {
		p.printf("%s = type { %s }\n", t.text, join(t.fields))
	}
	if len(m.Structs) > 0 {
		p.printf("\n")
	}
	for _, g := range m.Globals {
		p.global(g)
	}
	for _, f := range m.Functions {
		p.function(f)
	}
	p.lists(m.Lists)
	return p.w.Flush()
}

// printer writes text. numbers has the numbers of values without a name in a
// function.
type printer struct {
	w       *bufio.Writer // keeps the first error
	numbers map[Value]int
}

func (p *printer) printf(format string, args ...any) { fmt.Fprintf(p.w, format, args...) }

// typed writes a value with its type.
func (p *printer) typed(v Value) {
	p.w.WriteString(v.Type().text)
	p.w.WriteByte(' ')
	v.print(p)
}

// list writes values with their types.
func (p *printer) list(values []Value) { p.each(len(values), func(i int) { p.typed(values[i]) }) }

// each calls fn for numbers up to n, and writes a comma between what it writes.
func (p *printer) each(n int, fn func(i int)) {
	for i := range n {
		if i > 0 {
			p.w.WriteString(", ")
		}
		fn(i)
	}
}

var linkages = [...]string{Internal: "internal ", Weak: "weak ", WeakODR: "weak_odr ", Appending: "appending "}

func (p *printer) global(g *Global) {
	p.w.WriteString(quoted(g.Name) + " = " + linkages[g.Linkage])
	if g.Init == nil {
		p.w.WriteString("external ")
	}
	if g.Hidden {
		p.w.WriteString("hidden ")
	}
	if g.UnnamedAddr {
		p.w.WriteString("unnamed_addr ")
	}
	if g.Constant {
		p.w.WriteString("constant ")
	} else {
		p.w.WriteString("global ")
	}
	if g.Init == nil {
		p.w.WriteString(g.Content.text)
	} else {
		p.typed(g.Init)
	}
	if g.Section != "" {
		p.printf(", section \"%s\"", g.Section)
	}
	if g.Unsanitized {
		p.w.WriteString(", no_sanitize_address, no_sanitize_hwaddress")
	}
	if g.Align > 0 {
		p.printf(", align %d", g.Align)
	}
	p.w.WriteByte('\n')
}

func (g *Global) print(p *printer)   { p.w.WriteString(quoted(g.Name)) }
func (f *Function) print(p *printer) { p.w.WriteString(quoted(f.Name)) }
func (v *Param) print(p *printer)    { p.local("", v) }
func (i *Inst) print(p *printer)     { p.local(i.Name, i) }
func (c *Constant) print(p *printer) { p.parts(c.text) }

func (p *printer) local(name string, v Value) {
	if name == "" {
		p.printf("%%%d", p.numbers[v])
	} else {
		p.w.WriteString("%" + name)
	}
}

func (b *Bytes) print(p *printer) {
	if b.zero() {
		p.w.WriteString("zeroinitializer")
		return
	}
	p.w.WriteString(`c"`)
	const digits = "0123456789ABCDEF"
	for _, c := range b.Content.Mapped(guard.Inside) {
		switch {
		case c == '\\':
			p.w.WriteString(`\\`)
		case c >= ' ' && c < 0x7f && c != '"':
			p.w.WriteByte(c)
		default:
			p.w.Write([]byte{'\\', digits[c>>4], digits[c&15]})
		}
	}
	if b.Terminated {
		p.w.WriteString(`\00`)
	}
	p.w.WriteByte('"')
}

func (p *printer) function(f *Function) {
	result := f.Signature.fields[0].text
	if f.Blocks == nil {
		p.printf("\ndeclare %s %s(%s)\n", result, quoted(f.Name), join(f.Signature.fields[1:]))
		return
	}
	p.numbers = map[Value]int{}
	for _, param := range f.Params {
		p.numbers[param] = len(p.numbers)
	}
	before := map[*Block][]string{} // the preceding blocks of each block, the last one first
	for _, b := range f.Blocks {
		for _, i := range b.code {
			if i.Name == "" && i.result != Void {
				p.numbers[i] = len(p.numbers)
			}
			for _, part := range i.text {
				to, ok := part.(*Block)
				if name := "%" + b.Name; ok && i.code != codePhi && (len(before[to]) == 0 || before[to][0] != name) {
					before[to] = append([]string{name}, before[to]...)
				}
			}
		}
	}
	p.printf("\ndefine internal %s %s(", result, quoted(f.Name))
	p.each(len(f.Params), func(i int) { p.typed(f.Params[i]) })
	p.w.WriteString(")")
	if f.Section != "" {
		p.printf(" section \"%s\"", f.Section)
	}
	p.w.WriteString(" {\n")
	for n, b := range f.Blocks {
		if n == 0 {
			p.printf("%s:\n", b.Name)
		} else {
			p.printf("\n%-50s; preds = %s\n", b.Name+":", strings.Join(before[b], ", "))
		}
		for _, i := range b.code {
			p.inst(i)
		}
	}
	p.w.WriteString("}\n")
}

func (p *printer) inst(i *Inst) {
	p.w.WriteString("  ")
	if i.result != Void {
		i.print(p)
		p.w.WriteString(" = ")
	}
	p.parts(i.text)
	p.w.WriteByte('\n')
}

// parts writes the text of an instruction or a constant.
func (p *printer) parts(text []any) {
	for _, part := range text {
		switch part := part.(type) {
		case Value:
			part.print(p)
		case []Value:
			p.list(part)
		case *Type:
			p.w.WriteString(part.text)
		case *Block:
			p.w.WriteString("%" + part.Name)
		default:
			fmt.Fprint(p.w, part)
		}
	}
}

// lists writes named metadata with a node for each value.
func (p *printer) lists(lists []List) {
	node := 0
	for _, list := range lists {
		p.printf("\n!%s = !{", list.Name)
		p.each(len(list.Values), func(i int) { p.printf("!%d", node+i) })
		p.w.WriteString("}\n")
		node += len(list.Values)
	}
	node = 0
	for _, list := range lists {
		p.w.WriteByte('\n')
		for _, v := range list.Values {
			p.printf("!%d = !{", node)
			p.typed(v)
			p.w.WriteString("}\n")
			node++
		}
	}
}

// quoted returns the name of a global, in quotes if necessary.
func quoted(name string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-$._", r)
	}
	if strings.IndexFunc(name, func(r rune) bool { return !plain(r) }) < 0 {
		return "@" + name
	}
	var b strings.Builder
	b.WriteString(`@"`)
	for i := range len(name) {
		if c := name[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			fmt.Fprintf(&b, `\%02X`, c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
