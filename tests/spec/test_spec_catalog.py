"""Specs by name or path."""

import os
from pathlib import Path

import pytest
from spec_samples import DEPLOYMENT, GPU

from planner import resources
from planner.errors import SpecError, UsageError
from planner.spec.catalog import FOLDERS, Catalog
from planner.spec.load import load_file
from planner.spec.types import KINDS


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "gpus").mkdir()
    (tmp_path / "gpus" / "round-gpu.yaml").write_text(GPU)
    return tmp_path


@pytest.fixture
def catalog(folder):
    return Catalog((folder,))


def test_a_name_is_looked_up(catalog):
    assert catalog.find("gpu", "round-gpu").title == "Round GPU"
    assert catalog.names("gpu") == ("round-gpu",)
    assert [gpu.name for gpu in catalog.entries("gpu")] == ["round-gpu"]


def test_a_kind_without_files_is_empty(catalog):
    assert catalog.names("model") == ()


def test_a_spec_is_read_once_for_all_catalogues(catalog, folder):
    first = catalog.find("gpu", "round-gpu")
    assert catalog.find("gpu", "round-gpu") is first
    assert Catalog((folder,)).find("gpu", "round-gpu") is first


def test_a_changed_file_is_read_anew_by_a_new_catalogue(catalog, folder):
    first = catalog.find("gpu", "round-gpu")
    path = folder / "gpus" / "round-gpu.yaml"
    path.write_text(GPU.replace("Round GPU", "Rounder GPU"))
    os.utime(path, ns=(1, 1))
    assert first.title == "Round GPU"
    assert Catalog((folder,)).find("gpu", "round-gpu").title == "Rounder GPU"


def test_the_earlier_folder_counts(folder, tmp_path):
    own = tmp_path / "own"
    (own / "gpus").mkdir(parents=True)
    (own / "gpus" / "round-gpu.yaml").write_text(GPU.replace("Round GPU", "Mine"))
    assert Catalog((own, folder)).find("gpu", "round-gpu").title == "Mine"


@pytest.mark.parametrize("name", ["round-gpo", "Round GPU", "round_gpu"])
def test_an_unknown_name_offers_the_nearest(catalog, name):
    with pytest.raises(UsageError, match=r"unknown gpu .* \(did you mean 'round-gpu'\?\)"):
        catalog.find("gpu", name)


def test_an_unknown_name_is_shown_where_it_was_written(catalog, tmp_path):
    path = tmp_path / "d.yaml"
    path.write_text(DEPLOYMENT.replace("rtx-4090", "round-gpo"))
    spec = load_file(path)
    with pytest.raises(SpecError) as caught:
        catalog.find("gpu", spec.gpu, spec.origin.at("gpu"))
    (fault,) = caught.value.faults
    assert (fault.where.line, fault.where.column) == (3, 6)
    assert (fault.message, fault.hint) == (
        "gpu: unknown gpu 'round-gpo'",
        "did you mean 'round-gpu'?",
    )


def test_a_path_begins_at_the_file_that_names_it(catalog, tmp_path):
    (tmp_path / "mine.yaml").write_text(GPU.replace("round-gpu", "other-name"))
    (tmp_path / "d.yaml").write_text(DEPLOYMENT.replace("rtx-4090", "mine.yaml"))
    spec = load_file(tmp_path / "d.yaml")
    assert catalog.find("gpu", spec.gpu, spec.origin.at("gpu")).name == "other-name"


def test_a_path_without_an_origin_begins_at_the_working_directory(catalog, tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text(GPU)
    monkeypatch.chdir(tmp_path)
    assert catalog.find("gpu", "./mine.yaml").name == "round-gpu"


def test_a_missing_path_is_shown_where_it_was_written(catalog, tmp_path):
    (tmp_path / "d.yaml").write_text(DEPLOYMENT.replace("rtx-4090", "./nowhere.yaml"))
    spec = load_file(tmp_path / "d.yaml")
    with pytest.raises(SpecError, match=r"d\.yaml:3:6: gpu: there is no file .*nowhere\.yaml"):
        catalog.find("gpu", spec.gpu, spec.origin.at("gpu"))


def test_a_file_of_another_kind_is_refused(catalog, tmp_path):
    path = tmp_path / "g.yaml"
    path.write_text(GPU)
    with pytest.raises(
        SpecError, match=r"g\.yaml:1:7: kind: this is a spec of kind gpu, expected model"
    ):
        catalog.find("model", str(path))


def test_a_file_must_bear_its_name(folder):
    (folder / "gpus" / "stray.yaml").write_text(GPU)
    with pytest.raises(
        SpecError, match=r"stray\.yaml:2:7: name: must be that of its file, 'stray'"
    ):
        Catalog((folder,)).find("gpu", "stray")


def test_a_file_must_lie_in_the_folder_of_its_kind(folder):
    (folder / "models").mkdir()
    (folder / "models" / "round-gpu.yaml").write_text(GPU)
    with pytest.raises(SpecError, match="this is a spec of kind gpu, expected model"):
        Catalog((folder,)).find("model", "round-gpu")


def test_faults_of_all_files_come_at_once(folder):
    for name in ("a", "b"):
        (folder / "gpus" / f"{name}.yaml").write_text("kind: gpu\n")
    with pytest.raises(SpecError) as caught:
        Catalog((folder,)).entries("gpu")
    assert {Path(fault.where.file).stem for fault in caught.value.faults} == {"a", "b"}


def test_an_unknown_kind_offers_the_nearest(catalog):
    with pytest.raises(UsageError, match="did you mean 'gpu'"):
        catalog.names("gpus")


def test_the_standard_catalogue_ends_with_what_ships(folder):
    catalog = Catalog.standard([folder])
    assert catalog.folders == (folder, resources.folder("catalog"))
    with pytest.raises(UsageError, match="there is no catalogue folder"):
        Catalog.standard([folder / "nowhere"])


def test_every_kind_but_the_deployment_has_a_folder():
    assert set(FOLDERS) == set(KINDS) - {"deployment"}
