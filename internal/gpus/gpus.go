// Package gpus divides the GPUs of a machine between processes. Each process locks the GPUs that it uses, and
// sets the variables with which the runtimes of AMD and NVIDIA see only these.
package gpus

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Vendor is the maker of GPUs, whose runtimes read the same variables.
type Vendor string

// The vendors.
const (
	AMD    Vendor = "amd"
	NVIDIA Vendor = "nvidia"
)

// A GPU is a device of the machine.
type GPU struct {
	// Name is the value that stands for the GPU in the variables of the runtimes: an index, or what the variable
	// of the calling process contains.
	Name string
	// Lock is a file that a process locks while it uses the GPU.
	Lock string
}

// Find returns the GPUs of the machine, in the order of the runtimes. root is the root directory, "/" except in tests. The
// vendor is that of the first driver with a GPU, AMD's before NVIDIA's.
func Find(root string) (Vendor, []GPU, error) {
	found, err := amd(root)
	if err != nil || len(found) > 0 {
		return AMD, found, err
	}
	found, err = nvidia(root)
	if err == nil && len(found) == 0 {
		err = errors.New("no GPU was found: neither the driver of AMD (/sys/class/kfd) nor that of NVIDIA (/proc/driver/nvidia) lists one; name the number of GPUs and a directory for locks with --gpus and --lock-dir")
	}
	return NVIDIA, found, err
}

// amd returns the GPUs in the topology of AMD's driver. Nodes without SIMD units are CPUs.
func amd(root string) ([]GPU, error) {
	nodes, err := numbered(filepath.Join(root, "sys/class/kfd/kfd/topology/nodes"), "")
	if err != nil {
		return nil, err
	}
	var found []GPU
	for _, node := range nodes {
		file := filepath.Join(node, "properties")
		content, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrPermission) {
			continue // a GPU that is not for this container
		} else if err != nil {
			return nil, err
		}
		properties, err := parseProperties(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if properties["simd_count"] == 0 {
			continue
		}
		device := filepath.Join(root, "dev/dri", fmt.Sprintf("renderD%d", properties["drm_render_minor"]))
		if _, err := os.Stat(device); err != nil {
			continue // as the runtime does for devices that the container does not have
		}
		found = append(found, GPU{Name: strconv.Itoa(len(found)), Lock: device})
	}
	return found, nil
}

// nvidia returns the devices of NVIDIA's driver.
func nvidia(root string) ([]GPU, error) {
	devices, err := numbered(filepath.Join(root, "dev"), "nvidia")
	if err != nil {
		return nil, err
	}
	var found []GPU
	for _, device := range devices {
		found = append(found, GPU{Name: strconv.Itoa(len(found)), Lock: device})
	}
	return found, nil
}

// numbered returns the paths of the entries of a directory whose names are a prefix and a number, by number. A directory that does
// not exist has none.
func numbered(dir, prefix string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	paths := map[int]string{}
	for _, entry := range entries {
		digits, ok := strings.CutPrefix(entry.Name(), prefix)
		if number, err := strconv.ParseUint(digits, 10, 31); ok && err == nil {
			paths[int(number)] = filepath.Join(dir, entry.Name())
		}
	}
	var sorted []string
	for _, number := range slices.Sorted(maps.Keys(paths)) {
		sorted = append(sorted, paths[number])
	}
	return sorted, nil
}

// parseProperties parses the lines of a node of the topology: a name, a space and a number each.
func parseProperties(content []byte) (map[string]uint64, error) {
	properties := map[string]uint64{}
	lines := bufio.NewScanner(bytes.NewReader(content))
	for n := 1; lines.Scan(); n++ {
		name, value, ok := strings.Cut(lines.Text(), " ")
		number, err := strconv.ParseUint(value, 10, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("line %d: found %q, expected a name, a space and a number", n, lines.Text())
		}
		properties[name] = number
	}
	return properties, lines.Err()
}

// Pretend returns n GPUs whose locks are files in a directory.
func Pretend(n int, dir string) []GPU {
	pretended := make([]GPU, n)
	for i := range pretended {
		pretended[i] = GPU{Name: strconv.Itoa(i), Lock: filepath.Join(dir, fmt.Sprintf("gpu%d.lock", i))}
	}
	return pretended
}

// The variables with the GPUs that a process can see. ROCr applies its own first; HIP counts what is left.
const (
	ofROCr = "ROCR_VISIBLE_DEVICES"
	ofHIP  = "HIP_VISIBLE_DEVICES"
	ofCUDA = "CUDA_VISIBLE_DEVICES"
)

// Visible returns the GPUs that the variables of an environment leave a process, with the names that they have in the
// variables. Without such variables, these are all.
func Visible(vendor Vendor, all []GPU, environ []string) ([]GPU, error) {
	variables := []string{ofROCr, ofHIP}
	if vendor == NVIDIA {
		variables = []string{ofCUDA}
	}
	for _, variable := range variables {
		value, ok := lookup(environ, variable)
		if !ok {
			continue
		}
		var visible []GPU
		for name := range strings.SplitSeq(value, ",") {
			i, err := strconv.Atoi(strings.TrimSpace(name))
			if err != nil || i < 0 || i >= len(all) {
				return nil, fmt.Errorf("%s is %q: found %q, expected numbers of GPUs below %d, separated by commas", variable, value, name, len(all))
			}
			visible = append(visible, all[i])
		}
		all = visible
	}
	return all, nil
}

func lookup(environ []string, variable string) (string, bool) {
	for _, entry := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(entry, variable+"="); ok {
			return value, true
		}
	}
	return "", false
}

// Environment returns an environment in which a process sees only the chosen GPUs.
//
// For AMD, ROCR_VISIBLE_DEVICES has them, and HIP_VISIBLE_DEVICES numbers those that are left. CUDA_VISIBLE_DEVICES is another name of
// the latter, which HIP also reads; it is only set if the environment has it. For NVIDIA, CUDA_VISIBLE_DEVICES has the GPUs.
func Environment(vendor Vendor, chosen []GPU, environ []string) []string {
	var names, left []string
	for i, gpu := range chosen {
		names = append(names, gpu.Name)
		left = append(left, strconv.Itoa(i))
	}
	values := map[string]string{ofCUDA: strings.Join(names, ",")}
	if vendor == AMD {
		values = map[string]string{ofROCr: strings.Join(names, ","), ofHIP: strings.Join(left, ",")}
		if _, ok := lookup(environ, ofCUDA); ok {
			values[ofCUDA] = strings.Join(left, ",")
		}
	}
	var result []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if _, replaced := values[name]; !replaced {
			result = append(result, entry)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		result = append(result, name+"="+values[name])
	}
	return result
}
