package linkcache

import (
	"bytes"
	"slices"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/llvm/bitcode"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// ltoSection is the section in which clang -ffat-lto-objects stores bitcode.
const ltoSection = ".llvm.lto"

// isObject reports whether a file with these first bytes is ELF or bitcode.
func isObject(head []byte) bool { return bytes.HasPrefix(head, []byte(elf.Magic)) || bitcode.Is(head) }

// search finds the files that the content of an input names: members of a thin archive, which it adds, and
// libraries, which [keyer.dependent] adds. It fails for an input that names files in an unknown way.
func (k *keyer) search(name string) error {
	if k.searched[name] {
		return nil
	}
	k.searched[name] = true
	in, err := files.NewRoot("").OpenRegular(name)
	if err != nil {
		return err
	}
	defer in.Close()
	data := in.Mapped(guard.Inside)
	if !ar.Is(data) {
		return k.searchObject(data)
	}
	archive, err := ar.Parse(data)
	if err != nil {
		return err
	}
	for member, err := range archive.Members() {
		switch {
		case err != nil:
			return err
		case !member.Thin:
			err = k.searchObject(member.Data)
		default:
			err = k.member(ar.MemberPath(name, member.Name), member.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// member adds the file of a member of a thin archive.
func (k *keyer) member(name, role string) error {
	head, err := k.file(role, name)
	if err != nil || !isObject(head) {
		return errUnknown
	}
	return k.search(name)
}

// searchObject finds the files that an ELF object or bitcode names. Linkers ignore other members of
// archives.
func (k *keyer) searchObject(data []byte) error {
	switch {
	case bitcode.Is(data):
		return k.searchBitcode(data)
	case !bytes.HasPrefix(data, []byte(elf.Magic)):
		return nil
	}
	f, err := object.Parse(data)
	if err != nil {
		return err
	}
	for i := range f.Sections {
		section := &f.Sections[i]
		switch {
		case section.Type == elf.ShtDependent:
			list, err := f.Data(i)
			if err != nil {
				return err
			}
			for library := range bytes.SplitSeq(bytes.TrimSuffix(list, []byte{0}), []byte{0}) {
				k.depend(string(library))
			}
		case string(section.Name) == ltoSection:
			code, err := f.Data(i)
			if err == nil && len(code) > 0 {
				err = k.searchBitcode(code)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// searchBitcode finds the files that bitcode names. The assembler reads files during the link that text in its
// language names, with .incbin and .include.
func (k *keyer) searchBitcode(data []byte) error {
	libraries, err := bitcode.DependentLibraries(data)
	if err != nil {
		return err
	}
	for _, library := range libraries {
		k.depend(library)
	}
	includes := false
	err = bitcode.Assembly(data, func(text []byte) {
		includes = includes || bytes.Contains(bytes.ToLower(text), []byte(".inc"))
	})
	if err == nil && includes {
		err = errUnknown
	}
	return err
}

// depend adds a library to those that inputs name.
func (k *keyer) depend(library string) {
	if !slices.Contains(k.libraries, library) {
		k.libraries = append(k.libraries, library)
	}
}

// dependent adds the libraries that inputs name, and those that these name, wherever they can be: a linker looks
// for the library NAME in the directories of libraries, as for -lNAME and as a file of that name, and then in the
// working directory.
func (k *keyer) dependent(dirs []string) error {
	for i := 0; i < len(k.libraries); i++ { // the loop adds some
		name := k.libraries[i]
		if name == "" {
			return errUnknown
		}
		if err := k.anyOf(append(libraryNames(dirs, "lib"+name+".so", "lib"+name+".a", name), k.path(name))); err != nil {
			return err
		}
	}
	return nil
}
