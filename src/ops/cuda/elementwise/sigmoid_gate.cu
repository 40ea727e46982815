/* sigmoid_gate: y = sigmoid(gate) · x, a warp per row, in double; its backward in one pass likewise. */
#include "ops/cuda/common/sums.cuh"

__global__ static void forward_kernel(struct mt_sigmoid_gate_forward_args a)
{
    int64_t row = cuda_warp();
    if (row >= a.x.dim[0]) return;
    double sigmoid = 1.0 / (1.0 + exp(-cuda_get2(a.gate, row, 0)));
    for (int64_t j = cuda_lane(); j < a.x.dim[1]; j += 32) {
        cuda_put2(a.y, row, j, sigmoid * cuda_get2(a.x, row, j));
    }
}

/* A lane reads dy and x before it writes dx there: it may be either. */
__global__ static void backward_kernel(struct mt_sigmoid_gate_backward_args a)
{
    int64_t row = cuda_warp();
    if (row >= a.dy.dim[0]) return;
    double sigmoid = 1.0 / (1.0 + exp(-cuda_get2(a.gate, row, 0)));
    double dot = 0.0;
    for (int64_t j = cuda_lane(); j < a.dy.dim[1]; j += 32) {
        double dy = cuda_get2(a.dy, row, j);
        dot += dy * cuda_get2(a.x, row, j);
        cuda_put2(a.dx, row, j, sigmoid * dy);
    }
    dot = warp_sum(dot); // every lane has read the gate by now
    if (cuda_lane() == 0) cuda_put2(a.dgate, row, 0, sigmoid * (1.0 - sigmoid) * dot);
}

enum mt_status mt_cuda_sigmoid_gate_forward(struct mt_device *device,
                                            const struct mt_sigmoid_gate_forward_args *a)
{
    if (a->x.dim[0] == 0) return MT_OK;
    forward_kernel<<<cuda_warp_blocks(a->x.dim[0]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "sigmoid_gate forward");
}

enum mt_status mt_cuda_sigmoid_gate_backward(struct mt_device *device,
                                             const struct mt_sigmoid_gate_backward_args *a)
{
    if (a->dy.dim[0] == 0) return MT_OK;
    backward_kernel<<<cuda_warp_blocks(a->dy.dim[0]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "sigmoid_gate backward");
}
