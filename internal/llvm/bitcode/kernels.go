package bitcode

// Calling conventions of kernels.
const (
	callPTXKernel    = 71
	callAMDGPUKernel = 91
)

// Kernels returns the names of the kernels that the modules of a bitcode file
// define, in their order: functions with the kernel calling convention of
// amdgcn or NVPTX.
func Kernels(data []byte) ([]string, error) {
	var names []string
	err := scanSymbols(data, func(s *symbolScan) {
		for _, g := range s.globals {
			if g.kind == function && g.defined && (g.call == callPTXKernel || g.call == callAMDGPUKernel) {
				names = append(names, string(g.name))
			}
		}
	})
	return names, err
}
