// Folders, at the file seam: their errors read as those of files do, tests make any call fail, and what
// changes is recorded (file_faults.hpp, file_record.hpp).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ebb {

enum class PathKind { nothing, file, folder, other };
PathKind kind_of(const std::string& path);  // of what a link leads to

std::vector<std::string> names_in(const std::string& folder);  // sorted

void make_folder(const std::string& path);  // which is not there yet

// Names that were made, moved or removed in it are on the disk when this returns. Some file systems cannot do
// that, and some folders may be written and not read; then nothing is done. `of` is what an error names.
void sync_folder(const std::string& folder, const std::string& of = {});

void move_path(const std::string& from, const std::string& to, const char* operation = "move");
// Both names change places in one step; false where the file system cannot do that.
bool exchange_paths(const std::string& a, const std::string& b);

bool remove_file(const std::string& path) noexcept;  // false: it could not be, and is left
// A folder and what is in it. Links are removed, not followed. Nothing there is no error.
void remove_tree(const std::string& path);

// A lock on a folder, held until it goes out of scope or the process ends, however it ends.
class HeldFolder {
 public:
  static std::optional<HeldFolder> take(
      const std::string& folder);  // none: it is held, or cannot be
  HeldFolder(HeldFolder&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  HeldFolder& operator=(HeldFolder&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~HeldFolder();

 private:
  explicit HeldFolder(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace ebb
