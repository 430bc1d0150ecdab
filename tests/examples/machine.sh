#!/usr/bin/env bash
# machine.sh LLVM DIRECTORY: copies what builds need from this machine.
#
# DIRECTORY/compiler.tar: clang, lld and the headers and libraries of C and C++, for repositories of Bazel.
# DIRECTORY/machine: shared libraries and programs of a machine without any compiler or header.
set -euo pipefail
llvm=$1 to=$2
compiler=$to/compiler sysroot=$to/compiler/sysroot machine=$to/machine
libraries=usr/lib/x86_64-linux-gnu
mkdir -p "$compiler"/{bin,lib} "$sysroot/lib/x86_64-linux-gnu" "$sysroot"/{lib64,$libraries} "$machine"/{bin,lib,lib64}

# needed FILE...: the shared libraries of programs.
needed() { ldd "$@" 2>/dev/null | awk '$3 ~ /^\// { print $3 }' | sort -u; }

for program in clang clang-nvlink-wrapper lld llvm-ar llvm-link llvm-nm llvm-objcopy llvm-strip; do
    cp -L "$llvm/bin/$program" "$compiler/bin"
done
ln -s clang "$compiler/bin/clang++"
ln -s lld "$compiler/bin/ld.lld"
cp -rL "$llvm/lib/clang" "$compiler/lib"
for library in "$llvm"/lib/lib{omp,omptarget,LLVMOffload}.so*; do
    cp -L "$library" "$compiler/lib"
done
mapfile -t shared < <(needed "$llvm"/bin/{clang,lld} | grep -E 'libclang-cpp|libLLVM')
cp -L "${shared[@]}" "$compiler/lib"

# The newest GCC with a C++ library, which clang finds in the sysroot.
gcc=$(dirname "$(printf '%s\n' /usr/lib/gcc/x86_64-linux-gnu/*/libstdc++.so | sort -V | tail -1)")
cp -rL /usr/include "$sysroot/usr"
mkdir -p "$sysroot$gcc"
cp -rL "$gcc"/{include,*.o,*.a,*.so} "$sysroot$gcc"
cp -L /$libraries/{crt1,crti,crtn,Scrt1}.o /$libraries/lib{c,m}.so* /$libraries/lib{c_nonshared,dl,pthread,rt}.a \
    /$libraries/lib{dl,pthread,rt,mvec,gcc_s,stdc++}.so.* "$sysroot/$libraries"
cp "$sysroot/$libraries"/*.so.* "$sysroot/lib/x86_64-linux-gnu"
cp -L /lib64/ld-linux-x86-64.so.2 "$sysroot/lib64"

for program in bash sh cat chmod cp cut date diff dirname env find grep head ln ls mkdir mv rm sed sort tail tr uname wc; do
    cp -L "$(command -v "$program")" "$machine/bin"
done
mapfile -t shared < <(needed "$compiler"/bin/* "$machine"/bin/* "$compiler"/lib/*.so* | grep -vE 'libclang-cpp|libLLVM')
cp -L "${shared[@]}" "$machine/lib"
cp -L /lib64/ld-linux-x86-64.so.2 "$machine/lib64"

tar -C "$compiler" -cf "$to/compiler.tar" .
rm -rf "$compiler"
