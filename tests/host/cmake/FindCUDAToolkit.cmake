# The driver of the tests in the place of CUDA's.
add_library(tests_driver STATIC ${CMAKE_CURRENT_LIST_DIR}/../driver.c)
target_include_directories(tests_driver PUBLIC ${CMAKE_CURRENT_LIST_DIR}/..)
target_compile_definitions(tests_driver PRIVATE _GNU_SOURCE)
add_library(CUDA::cuda_driver ALIAS tests_driver)
set(CUDAToolkit_FOUND TRUE)
