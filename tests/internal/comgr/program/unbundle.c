// Takes a bundle apart with ROCm's code object manager, as the HIP runtime does.
// Usage: unbundle BUNDLE (ENTRY_ID OUTPUT)...
#include <amd_comgr/amd_comgr.h>
#include <stdio.h>
#include <stdlib.h>

static void check(amd_comgr_status_t status, const char *what) {
  if (status == AMD_COMGR_STATUS_SUCCESS)
    return;
  const char *reason = "";
  amd_comgr_status_string(status, &reason);
  fprintf(stderr, "%s: %s\n", what, reason);
  exit(1);
}

static char *read_file(const char *name, size_t *size) {
  FILE *file = fopen(name, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) {
    perror(name);
    exit(1);
  }
  *size = ftell(file);
  rewind(file);
  char *bytes = malloc(*size + 1);
  if (!bytes || fread(bytes, 1, *size, file) != *size) {
    perror(name);
    exit(1);
  }
  fclose(file);
  return bytes;
}

int main(int argc, char **argv) {
  if (argc < 4 || argc % 2) {
    fprintf(stderr, "usage: unbundle BUNDLE (ENTRY_ID OUTPUT)...\n");
    return 2;
  }
  size_t count = (argc - 2) / 2, size;
  const char **ids = calloc(count, sizeof *ids);
  for (size_t i = 0; i < count; i++)
    ids[i] = argv[2 + 2 * i];

  char *bytes = read_file(argv[1], &size);
  amd_comgr_data_t bundle;
  check(amd_comgr_create_data(AMD_COMGR_DATA_KIND_OBJ_BUNDLE, &bundle), "create data");
  check(amd_comgr_set_data(bundle, size, bytes), "set data");
  check(amd_comgr_set_data_name(bundle, "bundle"), "set name");
  amd_comgr_data_set_t in, out;
  check(amd_comgr_create_data_set(&in), "create set");
  check(amd_comgr_create_data_set(&out), "create set");
  check(amd_comgr_data_set_add(in, bundle), "add to set");

  amd_comgr_action_info_t info;
  check(amd_comgr_create_action_info(&info), "create action");
  check(amd_comgr_action_info_set_language(info, AMD_COMGR_LANGUAGE_HIP), "set language");
  check(amd_comgr_action_info_set_bundle_entry_ids(info, ids, count), "set entry IDs");
  check(amd_comgr_do_action(AMD_COMGR_ACTION_UNBUNDLE, info, in, out), argv[1]);

  size_t found;
  check(amd_comgr_action_data_count(out, AMD_COMGR_DATA_KIND_EXECUTABLE, &found), "count entries");
  if (found != count) {
    fprintf(stderr, "%s: %zu entries for %zu entry IDs\n", argv[1], found, count);
    return 1;
  }
  for (size_t i = 0; i < count; i++) {
    amd_comgr_data_t entry;
    check(amd_comgr_action_data_get_data(out, AMD_COMGR_DATA_KIND_EXECUTABLE, i, &entry), ids[i]);
    check(amd_comgr_get_data(entry, &size, NULL), ids[i]);
    char *content = malloc(size + 1);
    check(amd_comgr_get_data(entry, &size, content), ids[i]);
    FILE *file = fopen(argv[3 + 2 * i], "wb");
    if (!file || fwrite(content, 1, size, file) != size || fclose(file) != 0) {
      perror(argv[3 + 2 * i]);
      return 1;
    }
    free(content);
    amd_comgr_release_data(entry);
  }
  return 0;
}
