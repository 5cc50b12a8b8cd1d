// Copies the part of an image that a block of windows sees, zero where it lies outside the image,
// so that the inner loops need no bounds checks.

#if defined(EBB_KERNELS_CONV_PATCH_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_CONV_PATCH_INL_
#undef EBB_KERNELS_CONV_PATCH_INL_
#else
#define EBB_KERNELS_CONV_PATCH_INL_
#endif

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::conv {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
HWY_INLINE void fill_zero(T* to, size_t count) {
  if (count != 0) std::memset(static_cast<void*>(to), 0, count * sizeof(T));
}

// `count` rows of `elements`, `pitch` apart, to places `width` apart.
template <class T>
HWY_INLINE void copy_rows(const T* from, size_t pitch, size_t elements, size_t count, size_t width,
                          T* to) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d), whole = elements / lanes * lanes;
  for (size_t i = 0; i < count; ++i, from += pitch, to += width) {
    for (size_t j = 0; j < whole; j += lanes) hn::StoreU(hn::LoadU(d, from + j), d, to + j);
    if (whole < elements) std::memcpy(to + whole, from + whole, (elements - whole) * sizeof(T));
  }
}

// `count` pixels of `channels` elements, `pitch` apart, to places `width` >= channels apart, with
// zeros between them.
template <class T>
HWY_INLINE void copy_pixels(const T* from, size_t pitch, size_t channels, size_t count,
                            size_t width, T* to) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  if (channels == 0) {
    fill_zero(to, count * width);
  } else if (pitch == channels && width == channels) {
    if (count != 0) std::memcpy(to, from, count * channels * sizeof(T));
  } else if (channels == lanes && width == lanes) {
    for (size_t i = 0; i < count; ++i)
      hn::StoreU(hn::LoadU(d, from + i * pitch), d, to + i * lanes);
  } else if (channels == 2 * lanes && width == channels) {
    for (size_t i = 0; i < count; ++i) {
      hn::StoreU(hn::LoadU(d, from + i * pitch), d, to + i * width);
      hn::StoreU(hn::LoadU(d, from + i * pitch + lanes), d, to + i * width + lanes);
    }
  } else {
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(to + i * width, from + i * pitch, channels * sizeof(T));
      fill_zero(to + i * width + channels, width - channels);
    }
  }
}

// Rows [top, top + h) × columns [left, left + w) of an image of image_h × image_w pixels, `pitch`
// elements apart, of which the first `channels` are taken; patch (h, w, width).
template <class T>
void fill_patch(const T* image, size_t image_h, size_t image_w, size_t pitch, ptrdiff_t top,
                ptrdiff_t left, size_t h, size_t w, size_t channels, size_t width, T* patch) {
  const ptrdiff_t columns = static_cast<ptrdiff_t>(w), iw = static_cast<ptrdiff_t>(image_w);
  const size_t before = static_cast<size_t>(std::clamp<ptrdiff_t>(-left, 0, columns));
  const size_t end = static_cast<size_t>(
      std::clamp<ptrdiff_t>(iw - left, static_cast<ptrdiff_t>(before), columns));
  for (size_t r = 0; r < h; ++r, patch += w * width) {
    const ptrdiff_t y = top + static_cast<ptrdiff_t>(r);
    if (y < 0 || y >= static_cast<ptrdiff_t>(image_h) || end == before) {
      fill_zero(patch, w * width);
      continue;
    }
    const T* from =
        image + (y * iw + left + static_cast<ptrdiff_t>(before)) * static_cast<ptrdiff_t>(pitch);
    fill_zero(patch, before * width);
    copy_pixels(from, pitch, channels, end - before, width, patch + before * width);
    fill_zero(patch + end * width, (w - end) * width);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ebb::kernels::conv
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_CONV_PATCH_INL_
