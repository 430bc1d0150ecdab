// Guards checks that no goroutine can end the process when a mapped file is cut short. Reading
// behind the new end of the file is a fault, which ends the process unless the goroutine that
// reads is below guard.Faults or guard.Contain, or has called debug.SetPanicOnFault itself.
//
// Each call of the program starts below guard.Faults (see package command). So the faults that
// are left are those of goroutines started later. In the packages of the given directories,
// every go statement, and every call of a method Go or a function AfterFunc, must start a
// function that guards itself, or have a comment beside or above it that begins with
// "unguarded:" and says why it reads no input.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
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
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				p.bodies[fn.Name.Name] = guards(fn.Body)
			}
		}
	}
	for _, f := range all {
		found = append(found, p.file(f)...)
	}
	return found, nil
}

// pkg is a package to check.
type pkg struct {
	files  *token.FileSet
	bodies map[string]bool // by the name of a function or method: whether it guards itself
}

// file checks a file.
func (p *pkg) file(f *ast.File) (found []string) {
	excused := make(map[int]bool) // lines
	for _, group := range f.Comments {
		for _, c := range group.List {
			if reason, ok := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(c.Text, "//")), "unguarded:"); ok && strings.TrimSpace(reason) != "" {
				excused[p.files.Position(c.Pos()).Line] = true
				excused[p.files.Position(group.End()).Line+1] = true
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
		if !p.guarded(started) && !excused[at.Line] {
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
			yes = yes || name == "Contain" || name == "Faults" || name == "SetPanicOnFault"
		}
		return !yes
	})
	return yes
}
