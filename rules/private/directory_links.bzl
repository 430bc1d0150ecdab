"""Symbolic links in the directories of a ROCm, in repository rules.

Bazel follows links in a glob. A link to a directory above itself, as `include/hsa/hsa` of some packages, has no end; a link out of
an archive is to a file that another machine does not have.
"""

# Prints each link below a directory with what it leads to, empty if that does not exist.
_SCRIPT = """cd "$1" && find . -type l -exec sh -c 'for link; do printf "%s\\t%s\\n" "$link" "$(realpath "$link" 2>/dev/null)"; done' sh {} +"""

def _is_below(path, folder):
    return path == folder or path.startswith(folder + "/")

def _links(repository_ctx, root):
    """Returns the links below a directory: a dict from relative path to the real path of the target, empty if the target is missing."""
    answer = repository_ctx.execute(["sh", "-c", _SCRIPT, "sh", root])
    links = {}
    for line in answer.stdout.splitlines():
        link, tab, target = line.partition("\t")
        if tab:
            links[link.removeprefix("./")] = target
    return links

def _parent(path):
    return path.rpartition("/")[0]

def find_endless_links(repository_ctx, root):
    """Finds links to directories from which a directory above the link can be reached.

    Args:
      repository_ctx: the context of a repository rule.
      root: a directory.

    Returns:
      list of the links, as paths relative to `root`.
    """
    links = _links(repository_ctx, root)
    real = str(repository_ctx.path(root).realpath)
    return [link for link, target in links.items() if target and _is_endless(link, links, real)]

def _is_endless(link, links, real):
    """Reports whether a directory above a link can be reached through it."""
    place = _parent(real + "/" + link)
    reached = {links[link]: True}
    queue = [links[link]]
    for _ in range(len(links) + 1):
        following = []
        for folder in queue:
            if _is_below(place, folder):
                return True
            for other, target in links.items():
                if target and target not in reached and _is_below(real + "/" + other, folder):
                    reached[target] = True
                    following.append(target)
        queue = following
    return False

def mend_links(repository_ctx, root):
    """Mends the links of an extracted archive, so that globs end and find only files of the archive.

    A link without end becomes a directory with links to the files of its target. A link that leads out of the archive is deleted.

    Args:
      repository_ctx: the context of a repository rule.
      root: the directory of the archive.

    Returns:
      list of strings: the deleted links and their targets.
    """
    links = _links(repository_ctx, root)
    real = str(repository_ctx.path(root).realpath)
    endless = [link for link, target in links.items() if target and _is_below(target, real) and _is_endless(link, links, real)]
    outside = [link for link, target in links.items() if target and not _is_below(target, real)]
    for link in endless + outside:
        repository_ctx.delete("{}/{}".format(root, link))
    for link in endless:
        for child in repository_ctx.path(links[link]).readdir():
            if not child.is_dir and str(child) != "{}/{}".format(real, link):
                repository_ctx.symlink(child, "{}/{}/{}".format(root, link, child.basename))
    return ["{} -> {}".format(link, links[link]) for link in outside]

def link_directory(repository_ctx, source, target):
    """Links a directory into the repository, without links that have no end.

    Args:
      repository_ctx: the context of a repository rule.
      source: the directory.
      target: the path of the link.
    """
    endless = find_endless_links(repository_ctx, source)
    if not endless:
        repository_ctx.symlink(source, target)
        return
    queue = [""]
    for _ in range(max([link.count("/") for link in endless]) + 1):
        following = []
        for folder in queue:
            for child in repository_ctx.path("{}/{}".format(source, folder)).readdir():
                name = folder + child.basename
                if any([link.startswith(name + "/") for link in endless]):
                    following.append(name + "/")
                elif name not in endless:
                    repository_ctx.symlink(child, "{}/{}".format(target, name))
        queue = following
