package offload

import (
	"os"
	"path/filepath"

	"github.com/bazelbuild/buildtools/build"
)

// moduleFile is a MODULE.bazel, nil if it cannot be read.
type moduleFile struct{ *build.File }

func readModule(root string) moduleFile {
	path := filepath.Join(root, "MODULE.bazel")
	data, err := os.ReadFile(path)
	if err != nil {
		return moduleFile{}
	}
	file, err := build.ParseModule(path, data)
	if err != nil {
		return moduleFile{}
	}
	return moduleFile{file}
}

// name returns the name of the module.
func (m moduleFile) name() string {
	if m.File == nil {
		return ""
	}
	for _, r := range m.Rules("module") {
		return r.Name()
	}
	return ""
}

// rocm returns the repository with ROCm's libraries: the first that the module takes from an
// archive, or that of the machine; "" if it uses none.
func (m moduleFile) rocm() string {
	if m.File == nil {
		return ""
	}
	var used, archives []string
	build.Walk(m.File, func(e build.Expr, _ []build.Expr) {
		call, ok := e.(*build.CallExpr)
		if !ok {
			return
		}
		switch f := call.X.(type) {
		case *build.Ident:
			if f.Name == "use_repo" && len(call.List) > 0 {
				for _, arg := range call.List[1:] {
					if assign, ok := arg.(*build.AssignExpr); ok {
						arg = assign.LHS
					}
					switch arg := arg.(type) {
					case *build.StringExpr:
						used = append(used, arg.Value)
					case *build.Ident:
						used = append(used, arg.Name)
					}
				}
			}
		case *build.DotExpr:
			if f.Name == "archive_rocm" {
				archives = append(archives, build.NewRule(call).Name())
			}
		}
	})
	for _, repository := range append(archives, "offload_system_clang") {
		for _, name := range used {
			if name == repository {
				return "@" + name
			}
		}
	}
	return ""
}
