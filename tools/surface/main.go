// Surface checks what programs outside of this module can import: that there are few packages, each with
// a documentation and a runnable example, that no exported name needs a type of an internal package, and that
// no documentation of an exported name refers to such a package. A method with a parameter of type guard.Token
// is for this module only.
//
//	go run ./tools/surface
//
// prints a line for each fault, and with -list the packages with the number of their exported names.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	module = "github.com/rules-offload/rules_offload"
	// most is the largest number of packages that can be imported.
	most = 17
)

// pkg is a package as go list prints it.
type pkg struct {
	ImportPath, Name, Doc, Export, Dir string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

func main() {
	list := flag.Bool("list", false, "print the packages and the numbers of their exported names")
	flag.Parse()
	all, err := packages("./...")
	if err != nil {
		fmt.Fprintln(os.Stderr, "surface:", err)
		os.Exit(2)
	}
	faults, counts, err := check(all, module)
	if err != nil {
		fmt.Fprintln(os.Stderr, "surface:", err)
		os.Exit(2)
	}
	if *list {
		for _, c := range counts {
			fmt.Println(c)
		}
	}
	for _, f := range faults {
		fmt.Println(f)
	}
	if len(faults) > 0 {
		os.Exit(1)
	}
}

// packages returns packages and all that they import, with their export data.
func packages(patterns ...string) ([]pkg, error) {
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Name,Doc,Export,Dir,GoFiles,TestGoFiles,XTestGoFiles"}, patterns...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var all []pkg
	for d := json.NewDecoder(out); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, cmd.Wait()
		} else if err != nil {
			return nil, errors.Join(err, cmd.Wait())
		}
		all = append(all, p)
	}
}

// importable reports whether programs outside of the module can import p.
func importable(p *pkg, module string) bool {
	return below(p.ImportPath, module) && !internal(p.ImportPath) && p.Name != "main" && len(p.GoFiles) > 0 &&
		!below(p.ImportPath, module+"/tests")
}

func below(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func internal(path string) bool { return strings.Contains(path+"/", "/internal/") }

// check returns a line for each fault of the packages of a module that can be imported, and a line for
// each of these packages.
func check(all []pkg, module string) (faults, counts []string, err error) {
	exports := make(map[string]string)
	for _, p := range all {
		exports[p.ImportPath] = p.Export
	}
	compiled := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	hidden := hiddenNames(all, module)
	n := 0
	for i := range all {
		p := &all[i]
		if !importable(p, module) {
			continue
		}
		n++
		if p.Doc == "" {
			faults = append(faults, p.ImportPath+": the package has no documentation")
		}
		if runs, err := hasExample(p); err != nil {
			return nil, nil, err
		} else if !runs {
			faults = append(faults, p.ImportPath+": the package has no example with an output")
		}
		types, err := compiled.Import(p.ImportPath)
		if err != nil {
			return nil, nil, err
		}
		s := scan{module: module}
		s.scope(types.Scope())
		for _, f := range s.faults {
			faults = append(faults, p.ImportPath+"."+f)
		}
		found, err := hidden.documentation(p)
		if err != nil {
			return nil, nil, err
		}
		faults = append(faults, found...)
		counts = append(counts, fmt.Sprintf("%s: %d exported names", p.ImportPath, s.names))
	}
	if n > most {
		faults = append(faults, fmt.Sprintf("%d packages can be imported, expected at most %d: move what no program outside needs below internal/", n, most))
	}
	return faults, counts, nil
}

// hiddenPackages are the names of packages that programs outside of the module cannot import.
type hiddenPackages map[string]bool

// hiddenNames returns the names of internal packages of the module that no other package has.
func hiddenNames(all []pkg, module string) hiddenPackages {
	hidden := make(hiddenPackages)
	for _, p := range all {
		if below(p.ImportPath, module) && internal(p.ImportPath) {
			hidden[p.Name] = true
		}
	}
	for _, p := range all {
		if importable(&p, module) || !below(p.ImportPath, module) && !internal(p.ImportPath) {
			delete(hidden, p.Name)
		}
	}
	return hidden
}

// reference matches what can be a reference to a package or to one of its names: package files,
// [files.Output], *files.Error.
var reference = regexp.MustCompile(`\bpackages? ([a-z]\w*)|\b([a-z]\w*)\.[A-Z]\w*|\binternal/\w+`)

// documentation returns a line for each reference to a hidden package in the documentation of a package and its
// exported names, also of their fields and methods.
func (h hiddenPackages) documentation(p *pkg) (faults []string, err error) {
	set := token.NewFileSet()
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, group := range exportedDocs(file) {
			for _, c := range group.List {
				for _, m := range reference.FindAllStringSubmatch(c.Text, -1) {
					if strings.HasPrefix(m[0], "internal/") || h[m[1]] || h[m[2]] {
						faults = append(faults, fmt.Sprintf("%s: %s:%d: the documentation refers to %q, which programs outside of the module cannot import",
							p.ImportPath, name, set.Position(c.Pos()).Line, m[0]))
					}
				}
			}
		}
	}
	return faults, nil
}

// exportedDocs returns the comments of a file that go doc prints.
func exportedDocs(file *ast.File) (docs []*ast.CommentGroup) {
	// Without what is not exported, all comments that are left belong to a declaration that is printed.
	ast.FileExports(file)
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			f.Body = nil
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if group, ok := n.(*ast.CommentGroup); ok {
			docs = append(docs, group)
		}
		return true
	})
	return docs
}

// hasExample reports whether a package has an example that go test runs.
func hasExample(p *pkg) (bool, error) {
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(doc.Examples(file), func(e *doc.Example) bool { return e.Output != "" }) {
			return true, nil
		}
	}
	return false, nil
}

// scan looks for types of internal packages in exported names.
type scan struct {
	module string
	names  int
	faults []string
	seen   map[types.Type]bool
}

func (s *scan) scope(scope *types.Scope) {
	for _, name := range scope.Names() {
		o := scope.Lookup(name)
		if !o.Exported() {
			continue
		}
		s.name(name, o.Type())
		named, ok := o.Type().(*types.Named)
		if _, isType := o.(*types.TypeName); !ok || !isType {
			continue
		}
		s.look(name, named.Underlying())
		for m := range named.Methods() {
			if m.Exported() && !s.sealed(m) {
				s.name(name+"."+m.Name(), m.Type())
			}
		}
	}
}

// sealed reports whether only this module can call a method, because one of its parameters is a guard.Token.
func (s *scan) sealed(m *types.Func) bool {
	for v := range m.Signature().Params().Variables() {
		t, ok := v.Type().(*types.Named)
		if ok && t.Obj().Name() == "Token" && t.Obj().Pkg() != nil && t.Obj().Pkg().Path() == s.module+"/internal/storage/guard" {
			return true
		}
	}
	return false
}

// name looks at the type of one exported name.
func (s *scan) name(name string, t types.Type) {
	s.names++
	s.seen = make(map[types.Type]bool)
	s.look(name, t)
}

// look looks at a type and those that it consists of.
func (s *scan) look(name string, t types.Type) {
	if s.seen[t] {
		return
	}
	s.seen[t] = true
	switch t := t.(type) {
	case *types.Alias:
		s.look(name, types.Unalias(t))
	case *types.Named:
		if p := t.Obj().Pkg(); p != nil && below(p.Path(), s.module) && internal(p.Path()) {
			s.faults = append(s.faults, fmt.Sprintf("%s needs %s of an internal package", name, t))
		}
		for a := range t.TypeArgs().Types() {
			s.look(name, a)
		}
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels and maps
		s.look(name, t.Elem())
		if m, ok := t.(*types.Map); ok {
			s.look(name, m.Key())
		}
	case *types.Signature:
		s.look(name, t.Params())
		s.look(name, t.Results())
	case *types.Tuple:
		for v := range t.Variables() {
			s.look(name, v.Type())
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				s.look(name, f.Type())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			s.look(name, m.Type())
		}
	}
}
