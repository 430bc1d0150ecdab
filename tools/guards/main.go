// Guards checks that no goroutine can end the process when a mapped file is cut short. Reading
// behind the new end of the file is a fault, which ends the process unless the goroutine that
// reads is below guard.Faults or guard.Contain, or has called debug.SetPanicOnFault itself.
//
// Each call of the program starts below guard.Faults (see package command). So the faults that
// are left are those of goroutines started later. In the packages of the given directories,
// every go statement, and every call of a method Go or a function AfterFunc, must start a
// function that guards itself, or have a comment beside or above it that begins with
// "unguarded:" and says why it reads no input.
//
// Programs outside of the module cannot import package guard, and call the engine from goroutines of their
// own. So in packages that they can import, every exported function that returns an error and has a session,
// a content or a part as a parameter or receiver must guard itself, or have such a comment.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	found, err := check(os.Args[1:])
	for _, f := range found {
		fmt.Println(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "guards:", err)
	}
	if err != nil || len(found) > 0 {
		os.Exit(1)
	}
}

// check returns a line for each unguarded goroutine in the packages below some directories.
func check(dirs []string) (found []string, err error) {
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() {
				return err
			}
			list, err := checkPackage(path)
			found = append(found, list...)
			return err
		})
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// checkPackage is check for the files of one directory.
func checkPackage(dir string) (found []string, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	p := pkg{files: token.NewFileSet(), bodies: make(map[string]bool)}
	var all []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(p.files, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
		p.importable = p.importable || importable(dir, f)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				p.bodies[fn.Name.Name] = guards(fn.Body)
			}
		}
	}
	for _, f := range all {
		found = append(found, p.file(f)...)
		if p.importable {
			found = append(found, p.exported(f)...)
		}
	}
	return found, nil
}

// pkg is a package to check.
type pkg struct {
	files  *token.FileSet
	bodies map[string]bool // by the name of a function or method: whether it guards itself
	// importable is whether programs outside of the module can import the package.
	importable bool
}

// importable reports whether programs outside of the module can import the package of a file.
func importable(dir string, f *ast.File) bool {
	return f.Name.Name != "main" && !strings.Contains("/"+filepath.ToSlash(dir)+"/", "/internal/")
}

// exported checks the exported functions of a file.
func (p *pkg) exported(f *ast.File) (found []string) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || !fn.Name.IsExported() || fn.Body == nil || !fails(fn.Type) || !reads(fn) || guards(fn.Body) || excused(f, fn.Body) {
			continue
		}
		at := p.files.Position(fn.Pos())
		found = append(found, fmt.Sprintf("%s:%d: %s reads mapped files unguarded for its callers: begin it with defer guard.Into(&err)(), or say with a comment \"unguarded:\" in it what guards it", at.Filename, at.Line, fn.Name.Name))
	}
	return found
}

// excused reports whether a comment in a function begins with "unguarded:" and has a reason.
func excused(f *ast.File, body *ast.BlockStmt) bool {
	for _, group := range f.Comments {
		if body.Pos() < group.Pos() && group.End() < body.End() && slices.ContainsFunc(group.List, hasReason) {
			return true
		}
	}
	return false
}

// hasReason reports whether a comment begins with "unguarded:" and has a reason.
func hasReason(c *ast.Comment) bool {
	reason, ok := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(c.Text, "//")), "unguarded:")
	return ok && strings.TrimSpace(reason) != ""
}

// fails reports whether a function has an error among its results.
func fails(t *ast.FuncType) bool {
	if t.Results == nil {
		return false
	}
	for _, r := range t.Results.List {
		if name, ok := r.Type.(*ast.Ident); ok && name.Name == "error" {
			return true
		}
	}
	return false
}

// reads reports whether a function gets a session, or contents.
func reads(fn *ast.FuncDecl) bool {
	list := fn.Type.Params.List
	if fn.Recv != nil {
		list = append(slices.Clone(list), fn.Recv.List...)
	}
	for _, param := range list {
		t := param.Type
		for {
			switch inner := t.(type) {
			case *ast.StarExpr:
				t = inner.X
				continue
			case *ast.ArrayType:
				t = inner.Elt
				continue
			case *ast.Ellipsis:
				t = inner.Elt
				continue
			}
			break
		}
		name := ""
		switch t := t.(type) {
		case *ast.Ident:
			name = t.Name
		case *ast.SelectorExpr:
			name = t.Sel.Name
		}
		switch name {
		case "Session", "Content", "Part":
			return true
		}
	}
	return false
}

// file checks a file.
func (p *pkg) file(f *ast.File) (found []string) {
	lines := make(map[int]bool) // with a reason in a comment
	for _, group := range f.Comments {
		for _, c := range group.List {
			if hasReason(c) {
				lines[p.files.Position(c.Pos()).Line] = true
				lines[p.files.Position(group.End()).Line+1] = true
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		var started ast.Expr
		switch n := n.(type) {
		case *ast.GoStmt:
			started = n.Call.Fun
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || len(n.Args) == 0 || s.Sel.Name != "Go" && s.Sel.Name != "AfterFunc" {
				return true
			}
			started = n.Args[len(n.Args)-1]
		default:
			return true
		}
		at := p.files.Position(n.Pos())
		if !p.guarded(started) && !lines[at.Line] {
			found = append(found, fmt.Sprintf("%s:%d: the goroutine reads mapped files unguarded: begin it with guard.Contain, or say with a comment \"unguarded:\" why it reads no input", at.Filename, at.Line))
		}
		return true
	})
	return found
}

// guarded reports whether a started function guards itself.
func (p *pkg) guarded(f ast.Expr) bool {
	switch f := f.(type) {
	case *ast.FuncLit:
		return guards(f.Body)
	case *ast.Ident:
		return p.bodies[f.Name]
	case *ast.SelectorExpr:
		return p.bodies[f.Sel.Name]
	}
	return false
}

// guards reports whether a function calls one that converts faults to errors.
func guards(body *ast.BlockStmt) (yes bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			name := ""
			switch f := call.Fun.(type) {
			case *ast.Ident:
				name = f.Name
			case *ast.SelectorExpr:
				name = f.Sel.Name
			}
			yes = yes || name == "Contain" || name == "Faults" || name == "Into" || name == "View" || name == "SetPanicOnFault"
		}
		return !yes
	})
	return yes
}
