package devicelink

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/registration/runtimes"
)

// Kinds returns the offload kinds of the links in the order in which they first
// appear; those of one link are in the order of runtimes.Table.
func Kinds(links []Link) []offloadbinary.OffloadKind {
	var kinds []offloadbinary.OffloadKind
	for i := range links {
		for r := range runtimes.Table {
			kind := runtimes.Table[r].Kind
			if links[i].Kinds&kind != 0 && !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

// Of returns the links whose images are registered for a kind, in the order in
// which they are packed, see Compare.
func Of(links []Link, kind offloadbinary.OffloadKind) []int {
	var list []int
	for i := range links {
		if links[i].Kinds&kind != 0 {
			list = append(list, i)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int { return Compare(&links[a], &links[b]) })
	return list
}

// Compare orders links as their results are packed: by triple, then by arch, both
// descending.
func Compare(a, b *Link) int {
	return cmp.Or(strings.Compare(b.Triple, a.Triple), strings.Compare(b.Processor(), a.Processor()))
}

// hostEntry is the first entry of a bundle for HIP, whatever the host is: the
// runtime looks for no other, and clang-offload-bundler 22 rejects some others.
const hostEntry = "host-x86_64-unknown-linux-gnu"

// HIPTargets returns the entry IDs of a bundle of linked images, that of the
// empty host entry first. They name AMD's architecture as every release of the
// runtime reads it.
func HIPTargets(policy Policy, links []Link, list []int) []string {
	ids := []string{hostEntry}
	for _, i := range list {
		triple, arch := links[i].Triple, links[i].Processor()
		switch {
		case arch == "amdgcnspirv":
			triple = "spirv64-amd-amdhsa"
		case isAMD(triple) || !policy.rules().ownEntries:
			triple = "amdgcn-amd-amdhsa"
		}
		// The triple of an entry ID has four fields; the last one may be empty.
		fields := strings.Count(triple, "-") + 1
		ids = append(ids, "hip-"+triple+strings.Repeat("-", max(5-fields, 1))+arch)
	}
	return ids
}

// BundleCommand returns the command of clang-offload-bundler that makes a bundle
// for HIP of linked images.
func BundleCommand(bundler string, compress bool, level string, targets, images []string, output string) []string {
	args := []string{bundler, "-type=o", "-bundle-align=4096"}
	if compress {
		args = append(args, "-compress")
	}
	if level != "" {
		args = append(args, "-compression-level="+level)
	}
	args = append(args, "-targets="+strings.Join(targets, ","), "-input=/dev/null")
	for _, image := range images {
		args = append(args, "-input="+image)
	}
	return append(args, "-output="+output)
}

// FatbinaryCommand returns the command of NVIDIA's fatbinary that packs linked
// images for CUDA.
func FatbinaryCommand(fatbinary, hostTriple string, archs, images []string, output string) []string {
	bits := "-64"
	if narrow(hostTriple) {
		bits = "-32"
	}
	args := []string{fatbinary, bits, "--create", output}
	for i, image := range images {
		args = append(args, fmt.Sprintf("--image3=kind=elf,sm=%s,file=%s", archs[i][min(3, len(archs[i])):], image))
	}
	return args
}

// narrow reports whether pointers of a host have 32 bits.
func narrow(triple string) bool {
	switch target.ParseTriple(triple).Arch {
	case "x86", "arm", "armeb", "thumb", "thumbeb", "ppc", "ppcle", "mips", "mipsel", "riscv32", "riscv32be", "sparc", "sparcel", "loongarch32":
		return true
	}
	return false
}
