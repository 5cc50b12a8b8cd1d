// The table of plugin.hpp by MPI: Open MPI, and as source MPICH. The one file that knows mpi.h.
#include "ebb/dist/plugin.hpp"

#include <dlfcn.h>
#include <mpi.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kMostChannels = 8;
MPI_Comm channels[kMostChannels];
int channel_count = 0;

void copy(char* to, std::size_t bytes, const char* text) {
  if (bytes == 0) return;
  std::strncpy(to, text, bytes - 1);
  to[bytes - 1] = 0;
}

// A request is a pointer here and an int there.
static_assert(sizeof(MPI_Request) <= sizeof(std::uint64_t));
MPI_Request unpacked(std::uint64_t packed) {
  MPI_Request request;
  std::memcpy(&request, &packed, sizeof(MPI_Request));
  return request;
}
std::uint64_t packed(const MPI_Request& request) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, &request, sizeof(MPI_Request));
  return bytes;
}

void library(char* name, std::size_t bytes) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  text[std::strcspn(text, "\n")] = 0;
  copy(name, bytes, text);
}

void error(int code, char* to, std::size_t bytes) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  text[length] = 0;
  copy(to, bytes, text);
}

#ifdef OPEN_MPI
// Open MPI's words about trouble go by the launcher, and wait for it, inside of whatever was called. While the
// launcher ends a job it answers nobody, and in that second we have to say who was lost. So these words are one
// line, at once; of abort, which is ours, nothing. The way there is no interface: where another version has
// none such, its words stay as they are.
int say_trouble(const char* file, const char* topic, bool, ...) {
  if (std::strcmp(topic, "mpi-abort") == 0) return 0;
  char line[512];
  const int length = std::snprintf(line, sizeof line, "Open MPI: %s (%s)\n", topic, file);
  if (length > 0 && write(STDERR_FILENO, line, std::strlen(line)) < 0) return 1;
  return 0;
}

void take_over_words() {
  using Words = int (*)(const char*, const char*, bool, ...);
  if (auto* const place = static_cast<Words*>(dlsym(RTLD_DEFAULT, "opal_show_help")))
    *place = say_trouble;
}
#endif

int open(int count) {
  if (count > kMostChannels) return MPI_ERR_ARG;
#ifdef OPEN_MPI
  // It would overwrite code of the C library to see what is unmapped, which networks with registered memory
  // alone need; Ebb gives code back to the system, and with it such changes.
  setenv("OMPI_MCA_memory", "^patcher", 0);
#endif
  int level = MPI_THREAD_SINGLE;
  int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
  if (code != MPI_SUCCESS) return code;
#ifdef OPEN_MPI
  take_over_words();
#endif
  if (level < MPI_THREAD_FUNNELED) return MPI_ERR_OTHER;  // other threads compute meanwhile
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (channel_count = 0; channel_count < count; ++channel_count) {
    code = MPI_Comm_dup(MPI_COMM_WORLD, &channels[channel_count]);
    if (code != MPI_SUCCESS) return code;
    MPI_Comm_set_errhandler(channels[channel_count], MPI_ERRORS_RETURN);
  }
  return MPI_SUCCESS;
}

int close() {
  for (int i = 0; i < channel_count; ++i) MPI_Comm_free(&channels[i]);
  channel_count = 0;
  return MPI_Finalize();
}

int rank() {
  int is = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &is);
  return is;
}

int size() {
  int is = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &is);
  return is;
}

void host(char* name, std::size_t bytes) {
  char text[MPI_MAX_PROCESSOR_NAME];
  int length = 0;
  if (MPI_Get_processor_name(text, &length) != MPI_SUCCESS) length = 0;
  text[length] = 0;
  copy(name, bytes, text);
}

bool wrong(const EbbDistAddress& a, std::size_t bytes) {
  return a.channel < 0 || a.channel >= channel_count || bytes > INT_MAX;
}

int send(EbbDistAddress to, const void* from, std::size_t bytes, std::uint64_t* request) {
  if (wrong(to, bytes)) return MPI_ERR_ARG;
  MPI_Request started = MPI_REQUEST_NULL;
  const int code = MPI_Isend(from, static_cast<int>(bytes), MPI_BYTE, to.peer, to.tag,
                             channels[to.channel], &started);
  *request = packed(started);
  return code;
}

int receive(EbbDistAddress from, void* to, std::size_t bytes, std::uint64_t* request) {
  if (wrong(from, bytes)) return MPI_ERR_ARG;
  MPI_Request started = MPI_REQUEST_NULL;
  const int code = MPI_Irecv(to, static_cast<int>(bytes), MPI_BYTE, from.peer, from.tag,
                             channels[from.channel], &started);
  *request = packed(started);
  return code;
}

int test(std::uint64_t* request, int* over, std::size_t* bytes) {
  MPI_Request tested = unpacked(*request);
  MPI_Status status{};
  int flag = 0, count = 0;
  const int code = MPI_Test(&tested, &flag, &status);
  *request = packed(tested);
  *over = flag;
  if (code == MPI_SUCCESS && flag) MPI_Get_count(&status, MPI_BYTE, &count);
  *bytes = count > 0 ? static_cast<std::size_t>(count) : 0;
  int kind = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &kind);
  if (kind != MPI_ERR_TRUNCATE) return code;
  *over = 1;
  *bytes = kEbbDistTooLong;
  return MPI_SUCCESS;
}

int cancel(std::uint64_t* request) {
  MPI_Request cancelled = unpacked(*request);
  const int code = MPI_Cancel(&cancelled);
  if (code != MPI_SUCCESS) return code;
  const int freed = MPI_Request_free(&cancelled);
  *request = packed(cancelled);
  return freed;
}

void abort_all(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

const EbbDistPlugin kTable = {kEbbDistInterface,
                              sizeof(EbbDistPlugin),
                              library,
                              error,
                              open,
                              close,
                              rank,
                              size,
                              host,
                              send,
                              receive,
                              test,
                              cancel,
                              abort_all};

}  // namespace

extern "C" __attribute__((visibility("default"))) const EbbDistPlugin* ebb_dist_plugin() {
  return &kTable;
}
