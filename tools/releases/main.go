// Releases checks that code asks a property of a release of LLVM, never its number. A difference between releases is
// a field of dialect.Dialect or of Release in internal/cmd/release, or a method of target.Release. Of the rest of the
// module, tests apart, no expression orders, compares or switches on values of target.Release.
//
//	go run ./tools/releases
//
// prints a line for each such expression.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const module = "github.com/rules-offload/rules_offload"

// definition is the package of the type Release.
const definition = "/engine/target"

// allowed are the packages and files that may compare numbers, relative to the module.
var allowed = []string{"/internal/cmd/release", definition + "/release.go"}

// pkg is a package as go list prints it.
type pkg struct {
	ImportPath, Export, Dir string
	GoFiles, Deps           []string
	Standard                bool
}

func main() {
	found, err := check(".", module)
	for _, f := range found {
		fmt.Println(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "releases:", err)
	}
	if err != nil || len(found) > 0 {
		os.Exit(1)
	}
}

// check returns a line for each comparison of releases in the module in a directory.
func check(dir, module string) (found []string, err error) {
	all, err := packages(dir)
	if err != nil {
		return nil, err
	}
	exports := make(map[string]string)
	for _, p := range all {
		exports[p.ImportPath] = p.Export
	}
	fset := token.NewFileSet()
	compiled := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, p := range all {
		if p.Standard || p.ImportPath != module+definition && !slices.Contains(p.Deps, module+definition) {
			continue
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
		c := checker{module: module, info: types.Info{Types: make(map[ast.Expr]types.TypeAndValue)}}
		if _, err := (&types.Config{Importer: compiled}).Check(p.ImportPath, fset, files, &c.info); err != nil {
			return nil, fmt.Errorf("%s: %w", p.ImportPath, err)
		}
		for i, file := range files {
			name := p.ImportPath + "/" + p.GoFiles[i]
			if slices.ContainsFunc(allowed, func(path string) bool { return below(name, module+path) }) {
				continue
			}
			for _, at := range c.file(file) {
				found = append(found, fmt.Sprintf("%s:%d: compares a release of LLVM: ask a field of dialect.Dialect or of release.Release instead",
					strings.TrimPrefix(name, module+"/"), fset.Position(at).Line))
			}
		}
	}
	return found, nil
}

func below(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// packages returns the packages of the module in a directory and all that they import, with their export data.
func packages(dir string) ([]pkg, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles,Deps,Standard", "./...")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
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

// checker finds comparisons in the files of a package.
type checker struct {
	module string
	info   types.Info
}

// file returns the positions of the comparisons in a file.
func (c *checker) file(f *ast.File) (found []token.Pos) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if comparison(n.Op) && (c.release(n.X) || c.release(n.Y)) {
				found = append(found, n.OpPos)
			}
		case *ast.SwitchStmt:
			if n.Tag != nil && c.release(n.Tag) {
				found = append(found, n.Switch)
			}
		case *ast.CallExpr:
			if !c.conversion(n) && c.orders(n) && slices.ContainsFunc(n.Args, c.release) {
				found = append(found, n.Lparen)
			}
		}
		return true
	})
	return found
}

// comparison reports whether an operator compares, or computes a difference.
func comparison(op token.Token) bool {
	switch op {
	case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ, token.SUB:
		return true
	}
	return false
}

// release reports whether an expression is a release, or one as another type of number.
func (c *checker) release(e ast.Expr) bool {
	e = ast.Unparen(e)
	if named, ok := c.info.Types[e].Type.(*types.Named); ok {
		o := named.Obj()
		return o.Name() == "Release" && o.Pkg() != nil && o.Pkg().Path() == c.module+definition
	}
	call, ok := e.(*ast.CallExpr)
	return ok && c.conversion(call) && c.release(call.Args[0])
}

// conversion reports whether a call is the conversion of a value.
func (c *checker) conversion(call *ast.CallExpr) bool {
	return c.info.Types[call.Fun].IsType() && len(call.Args) == 1
}

// orders reports whether a call is one of the functions that compare their arguments.
func (c *checker) orders(call *ast.CallExpr) bool {
	switch types.ExprString(call.Fun) {
	case "min", "max", "cmp.Compare", "cmp.Less":
		return true
	}
	return false
}
